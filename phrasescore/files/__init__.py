"""Files as byte streams: read by content, written whole or not at all. `-` is standard input or standard output."""

from phrasescore.files.folders import make_folder, require_folder
from phrasescore.files.reading import (
    LONGEST_LINE,
    MAGIC_LENGTH,
    Input,
    bounded_lines,
    detect_format,
    open_input,
    read_bytes,
    read_lines,
)
from phrasescore.files.regular import open_regular, read_regular, sha256_of, sha256_of_input
from phrasescore.files.streams import (
    STANDARD_STREAM,
    STDOUT,
    complete_standard_streams,
    display_name,
    is_device_or_pipe,
    real_path,
    require_one_standard_input,
    require_open,
)
from phrasescore.files.temporary import lock_file, try_to_lock
from phrasescore.files.writing import (
    compress,
    compression_for,
    finite,
    full_disk_told,
    open_output,
    require_writable,
    to_json,
    write_atomically,
    write_json,
    write_lines,
)

__all__ = [
    "LONGEST_LINE",
    "MAGIC_LENGTH",
    "STANDARD_STREAM",
    "STDOUT",
    "Input",
    "bounded_lines",
    "complete_standard_streams",
    "compress",
    "compression_for",
    "detect_format",
    "display_name",
    "finite",
    "full_disk_told",
    "is_device_or_pipe",
    "lock_file",
    "make_folder",
    "open_input",
    "open_output",
    "open_regular",
    "read_bytes",
    "read_lines",
    "read_regular",
    "real_path",
    "require_folder",
    "require_one_standard_input",
    "require_open",
    "require_writable",
    "sha256_of",
    "sha256_of_input",
    "to_json",
    "try_to_lock",
    "write_atomically",
    "write_json",
    "write_lines",
]
