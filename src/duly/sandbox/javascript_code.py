"""Compiled texts: what the interpreter makes of a text, kept by a worker for its next contexts.

Law 1: an interpreter trusts bytecode as it trusts its own code. So a worker compiles every text
       itself, in a context in which nothing has run, and keeps the result in its own memory. No
       bytecode comes from a file, from the store or over the channel (X1).
Law 2: a context always gets a text as bytecode that was read back, also the first one, so a text
       does the same in every context. Lines, limits and errors are those of the text (X2, X3).
Law 3: bytecode belongs to one text, byte for byte. It is kept in memory that is there from the
       start: what a worker keeps is not counted as a script's.
Law 4: the binding does not offer this, the library below it does. Where a function is missing, or
       a context is laid out in another way, `find_compiler` returns None, and every context
       compiles its texts.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any, Final

import _quickjs  # type: ignore[import-not-found]  # its package would start a thread

STACK_BYTES: Final = 1024 * 1024  # enough to write a value a hundred levels deep (T8)
CODE_BYTES: Final = 4 * 1024 * 1024
FILE_NAME: Final = b"<input>"  # as the binding calls every text

# Constants of the library's header.
EVAL_SCRIPT, EVAL_MODULE, COMPILE_ONLY = 0, 1, 1 << 5
BYTECODE, WITHOUT_SOURCE = 1, 1 << 4
OBJECT, INTEGER, UNDEFINED, EXCEPTION = -1, 0, 3, 6

POINTER: Final = ctypes.c_void_p
WORD_BYTES: Final = 8


class RawValue(ctypes.Structure):
    """A value of the interpreter: 64 bits of it, and what kind it is."""

    _fields_ = (("bits", ctypes.c_uint64), ("tag", ctypes.c_int64))


# What is used of the library: the type of the result, then those of the arguments.
FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "JS_GetRuntime": (POINTER, POINTER),
    "JS_Eval": (RawValue, POINTER, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_int),
    "JS_WriteObject": (POINTER, POINTER, POINTER, RawValue, ctypes.c_int),
    "JS_ReadObject": (RawValue, POINTER, POINTER, ctypes.c_size_t, ctypes.c_int),
    "JS_EvalFunction": (RawValue, POINTER, RawValue),
    "JS_ResolveModule": (ctypes.c_int, POINTER, RawValue),
    "JS_Call": (RawValue, POINTER, RawValue, RawValue, ctypes.c_int, POINTER),
    "JS_GetException": (RawValue, POINTER),
    "JS_DupValue": (RawValue, POINTER, RawValue),
    "JS_FreeValue": (None, POINTER, RawValue),
    "JS_GetGlobalObject": (RawValue, POINTER),
    "JS_SetPropertyStr": (ctypes.c_int, POINTER, RawValue, ctypes.c_char_p, RawValue),
    "JS_NewAtom": (ctypes.c_uint32, POINTER, ctypes.c_char_p),
    "JS_DeleteProperty": (ctypes.c_int, POINTER, RawValue, ctypes.c_uint32, ctypes.c_int),
    "JS_FreeAtom": (None, POINTER, ctypes.c_uint32),
    "JS_SetInterruptHandler": (None, POINTER, POINTER, POINTER),
    "js_free": (None, POINTER, POINTER),
}
# What these texts are tells whether values are laid out as they are here.
PROBES: Final = {b"42": (INTEGER, 42), b"void 0": (UNDEFINED, None), b"throw 1": (EXCEPTION, None)}


class HeldValue:
    """A value of a context, held until nothing needs it; the context lives as long."""

    def __init__(self, library: Any, context: Any, value: RawValue) -> None:
        self._library = library
        self._context = context
        self.value = value

    def __del__(self) -> None:
        self._library.JS_FreeValue(_inside(self._context), self.value)


class CodeShelf:
    """Compiled texts in memory that is never more and never less; when it is full, it is emptied.

    Each lies behind its text, which is compared in full.
    """

    def __init__(self, size_bytes: int = CODE_BYTES) -> None:
        # Python writes to all of it, so the kernel counts these pages from the start.
        self._bytes = bytearray(size_bytes)
        self._first = ctypes.addressof(ctypes.c_char.from_buffer(self._bytes))
        self._places: dict[int, tuple[int, int, int]] = {}
        self._used = 0

    def find(self, text: bytes) -> tuple[int, int] | None:
        """Return where the bytecode of exactly this text lies, and its size."""
        place = self._places.get(hash(text))
        if place is None:
            return None
        start, middle, end = place
        if memoryview(self._bytes)[start:middle] != text:
            return None
        return self._first + middle, end - middle

    def put(self, text: bytes, code: bytes) -> tuple[int, int] | None:
        """Keep the bytecode of a text, and return where it lies; None if it is too large."""
        size = len(text) + len(code)
        if size > len(self._bytes) // 4:
            return None
        if self._used + size > len(self._bytes):
            self._places.clear()
            self._used = 0
        start = self._used
        middle, self._used = start + len(text), start + size
        self._bytes[start:middle] = text
        self._bytes[middle : self._used] = code
        self._places[hash(text)] = (start, middle, self._used)
        return self._first + middle, len(code)


class Compiler:
    """The library below the binding, and the texts it has compiled in this process."""

    def __init__(self, cpu_s: Callable[[], float]) -> None:
        self._library = ctypes.PyDLL(_quickjs.__file__)
        for name, (result, *arguments) in FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        self._shelf = CodeShelf()
        self._ends_at_s = 0.0
        self._cpu_s = cpu_s
        interrupt = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, POINTER)
        self._interrupt = interrupt(lambda *_: self._cpu_s() >= self._ends_at_s)

    def compile(self, text: bytes, kind: int, memory_bytes: int = -1) -> bytes | None:
        """Make bytecode of a text, where nothing has run; None if it is no such text."""
        library, context = self._library, _fresh_context()
        context.set_memory_limit(memory_bytes)
        inside = _inside(context)
        compiled = library.JS_Eval(inside, text, len(text), FILE_NAME, kind | COMPILE_ONLY)
        if compiled.tag == EXCEPTION:
            return None
        size = ctypes.c_size_t()
        # No script reads the source of our functions; one may read that of its own.
        flags = BYTECODE | (WITHOUT_SOURCE if kind == EVAL_SCRIPT else 0)
        place = library.JS_WriteObject(inside, ctypes.addressof(size), compiled, flags)
        library.JS_FreeValue(inside, compiled)
        if place is None:
            return None
        code = ctypes.string_at(place, size.value)
        library.js_free(inside, place)
        return code

    def evaluate(self, context: Any, code: bytes) -> tuple[Any, HeldValue]:
        """Run compiled text of ours in a fresh context; return its function, for both ways in."""
        library, inside = self._library, _inside(context)
        place = ctypes.cast(ctypes.c_char_p(code), POINTER)
        read = library.JS_ReadObject(inside, place, len(code), BYTECODE)
        held = HeldValue(library, context, library.JS_EvalFunction(inside, read))
        if held.value.tag != OBJECT:
            raise MemoryError
        # The binding finds a function by the name of a global, which is gone before a script comes.
        everything = library.JS_GetGlobalObject(inside)
        own = library.JS_DupValue(inside, held.value)
        library.JS_SetPropertyStr(inside, everything, b"enter", own)
        function = context.get("enter")
        name = library.JS_NewAtom(inside, b"enter")
        library.JS_DeleteProperty(inside, everything, name, 0)
        library.JS_FreeAtom(inside, name)
        library.JS_FreeValue(inside, everything)
        return function, held

    def load(
        self, held: HeldValue, text: str, above: bytes, *, memory_bytes: int, ends_at_s: float
    ) -> bool:
        """Run the text of a module and hand its promise to the function that is held.

        `above` stands before the text. False if the text cannot be compiled: then nothing has run,
        and the binding can say why.
        """
        context, encoded = held._context, text.encode()
        found = self._shelf.find(encoded)
        if found is None:
            code = self.compile(above + encoded, EVAL_MODULE, memory_bytes)
            found = None if code is None else self._shelf.put(encoded, code)
        if found is None:
            return False
        library, inside = self._library, _inside(context)
        module = library.JS_ReadObject(inside, *found, BYTECODE)
        if module.tag == EXCEPTION:
            self._fail(inside)
        if library.JS_ResolveModule(inside, module) != 0:
            library.JS_FreeValue(inside, library.JS_GetException(inside))
            return False
        self._run(context, held, module, ends_at_s)
        return True

    def _run(self, context: Any, held: HeldValue, module: RawValue, ends_at_s: float) -> None:
        library, (runtime, inside) = self._library, _words(context)
        # The binding's own interrupt is on while the binding runs something; this is not that.
        self._ends_at_s = ends_at_s
        handler = ctypes.cast(self._interrupt, POINTER)
        library.JS_SetInterruptHandler(runtime, handler, None)
        promise = library.JS_EvalFunction(inside, module)
        library.JS_SetInterruptHandler(runtime, None, None)
        if promise.tag == EXCEPTION:
            self._fail(inside)
        nothing = RawValue(0, UNDEFINED)
        handed = library.JS_Call(inside, held.value, nothing, 1, ctypes.addressof(promise))
        library.JS_FreeValue(inside, promise)
        if handed.tag == EXCEPTION:
            self._fail(inside)

    def _fail(self, inside: int | None) -> None:
        """Raise MemoryError: what a script throws is in its promise, so only this is left."""
        self._library.JS_FreeValue(inside, self._library.JS_GetException(inside))
        raise MemoryError

    def works(self) -> bool:
        """Tell whether contexts and values are laid out as expected; a wrong guess ends nothing."""
        context = _fresh_context()
        runtime, inside = _words(context)
        if not (_is_readable(runtime) and _is_readable(inside)):
            return False
        if self._library.JS_GetRuntime(inside) != runtime:
            return False
        for text, (tag, bits) in PROBES.items():
            value = self._library.JS_Eval(inside, text, len(text), FILE_NAME, EVAL_SCRIPT)
            if value.tag != tag or bits not in (None, value.bits):
                return False
        return True


def find_compiler(cpu_s: Callable[[], float]) -> Compiler | None:
    """Return the way to keep compiled texts, if the installed library has one."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(POINTER) != WORD_BYTES:
        return None
    if _quickjs.Context.__basicsize__ < object.__basicsize__ + 2 * WORD_BYTES:
        return None
    try:
        compiler = Compiler(cpu_s)
        return compiler if compiler.works() else None
    except (AttributeError, OSError):
        return None


def _fresh_context() -> Any:
    context = _quickjs.Context()
    context.set_max_stack_size(STACK_BYTES)
    return context


def _words(context: Any) -> tuple[int | None, int | None]:
    """Read the first two words of the binding's object: its runtime and its context."""
    words = (POINTER * 2).from_address(id(context) + object.__basicsize__)
    return words[0], words[1]


def _inside(context: Any) -> int | None:
    return _words(context)[1]


def _is_readable(address: int | None) -> bool:
    """Ask the kernel whether something lies there, which a wrong pointer survives."""
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY)
    except OSError:
        return False
    try:
        return len(os.pread(memory, WORD_BYTES, address or 0)) == WORD_BYTES
    except (OSError, OverflowError):
        return False
    finally:
        os.close(memory)
