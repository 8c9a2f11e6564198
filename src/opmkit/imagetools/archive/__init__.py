"""Tar archives of images: docker archives and OCI archives."""

from opmkit.imagetools.archive.docker import read_docker_archive, write_docker_archive
from opmkit.imagetools.archive.oci import ArchivedLayout, write_oci_archive
from opmkit.imagetools.archive.reader import TarArchive
from opmkit.imagetools.archive.writer import TarWriter, new_archive

__all__ = [
    "ArchivedLayout",
    "TarArchive",
    "TarWriter",
    "new_archive",
    "read_docker_archive",
    "write_docker_archive",
    "write_oci_archive",
]
