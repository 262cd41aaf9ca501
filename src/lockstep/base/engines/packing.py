"""Answers as bytes: JSON, or a numpy array as numpy writes it. Reading them runs no code, as pickles would.

An answer is packed where it is computed, so that every engine and every file of answers holds the same bytes.
"""

from __future__ import annotations

import io
import json
import zlib
from typing import Any

from lockstep.base.types.plain import written_value

JSON, ARRAY = b"j", b"a"
FASTEST = 1
MOST_B = 1 << 30
"""Bytes of the text of an answer that is read."""


def packed(answer: object) -> bytes:
    """The bytes of plain data or of one numpy array."""
    if hasattr(answer, "dtype") and hasattr(answer, "shape") and answer.shape:
        import numpy as np

        file = io.BytesIO()
        np.save(file, answer, allow_pickle=False)  # type: ignore[arg-type]
        return ARRAY + file.getvalue()
    text = json.dumps(answer, default=written_value, ensure_ascii=False, separators=(",", ":"))
    return JSON + zlib.compress(text.encode("utf-8", "surrogatepass"), FASTEST)


def unpacked(content: bytes) -> Any:
    """What `packed` was given, with lists for tuples. Raises ValueError for bytes that are damaged."""
    kind, rest = content[:1], content[1:]
    if kind == ARRAY:
        import numpy as np

        file = io.BytesIO(rest)
        np.lib.format.read_magic(file)
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
        # The array is as large as its bytes, whatever its header says; a copy, as answers may be written to.
        array = np.frombuffer(rest, dtype, offset=file.tell()).copy()
        return array.reshape(shape, order="F" if is_fortran else "C")
    if kind != JSON:
        raise ValueError("not an answer")
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(rest, MOST_B)
        if not stream.eof:
            raise ValueError(f"cut off, or longer than {MOST_B} bytes")
        return json.loads(text.decode("utf-8", "surrogatepass"))
    except (zlib.error, RecursionError) as error:
        raise ValueError(str(error)) from None
