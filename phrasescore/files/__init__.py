"""Read and write files: the one place that opens files of others, and that makes outputs complete or absent."""

from phrasescore.files.documents import finite, to_json, write_json
from phrasescore.files.reading import (
    LONGEST_LINE,
    MAGIC_LENGTH,
    STANDARD_STREAM,
    STDOUT,
    Input,
    bounded_lines,
    complete_standard_streams,
    compressed_form,
    detect_format,
    display_name,
    is_stream,
    make_folder,
    open_input,
    open_regular,
    read_bytes,
    read_lines,
    read_regular,
    real_path,
    require_folder,
    require_one_standard_input,
    require_open,
    require_rereadable,
    sha256_of,
    sha256_of_input,
)
from phrasescore.files.writing import (
    compress,
    compression_for,
    full_disk_as_error,
    lock_file,
    open_hidden,
    open_output,
    require_writable,
    write_atomically,
    write_lines,
)

__all__ = [
    "LONGEST_LINE", "MAGIC_LENGTH", "STANDARD_STREAM", "STDOUT",
    "Input", "bounded_lines", "complete_standard_streams", "compress", "compressed_form", "compression_for",
    "detect_format", "display_name", "finite", "full_disk_as_error", "is_stream", "lock_file", "make_folder",
    "open_hidden", "open_input", "open_output", "open_regular", "read_bytes", "read_lines", "read_regular",
    "real_path", "require_folder", "require_one_standard_input", "require_open", "require_rereadable",
    "require_writable", "sha256_of", "sha256_of_input", "to_json", "write_atomically", "write_json", "write_lines",
]  # fmt: skip
