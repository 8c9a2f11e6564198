"""OCI image layouts on disk, and the embedded image store, which is one."""
