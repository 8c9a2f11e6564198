"""Copying of many images to one registry or directory, concurrently and incrementally.

`plan_mirror` finds out what the target lacks, and `copy_images` copies that. Images are named by `MirrorRequest`; where
they go is decided by a `MirrorTarget`: `RegistryTarget` or `DirectoryTarget`.
"""
