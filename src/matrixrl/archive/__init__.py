"""Archives of named arrays with a JSON header, as bytes or as a file: no pickles, one digest, atomic writing."""

from matrixrl.archive.files import FORMAT_VERSION, comparing, pack, read_archive, refusing, unpack, write_archive

__all__ = ["FORMAT_VERSION", "comparing", "pack", "read_archive", "refusing", "unpack", "write_archive"]
