"""Attacks that only exhaust: time, memory, stack, output, calls, the host's patience."""

from __future__ import annotations

from tests.sandbox.hostile.attack import Aim, Attack, Program

CPU = "(computed|ran) longer than"
MEMORY = "more than 16 MiB"
VALUES = "at most 500000 values"
DEEP = "too deeply|recursion"
BOMB = "bomb = [1]\nfor _ in range(40):\n    bomb = [bomb, bomb]\n"

EXHAUSTIONS: tuple[Attack, ...] = tuple(
    Attack(name, why, Aim.NOTHING, javascript, python)
    for name, why, javascript, python in (
        (
            "a loop",
            "the plainest one",
            Program("for (;;);", says=CPU),
            Program("while True:\n    pass", says=CPU),
        ),
        (
            "a loop at module level",
            "validation runs the source too",
            Program(module="for (;;);", says=CPU),
            Program(module="while True:\n    pass", says=CPU),
        ),
        (
            "a module that never finishes loading",
            "top-level await waits for what nobody sends",
            Program(
                module="await new Promise(() => {});", says="never happens|not read to its end"
            ),
            Program(module="import time\ntime.sleep(10 ** 9)", says="longer than"),
        ),
        (
            "a loop of jobs",
            "each job is short, so a limit per job never fires",
            Program("for (;;) await null", says=CPU),
            Program(
                "import asyncio\nwhile True:\n    await asyncio.sleep(0)",
                says="longer than|asked more than",
            ),
        ),
        (
            "a loop in a comparison of a sort",
            "the sort is native code that calls back",
            Program("[3, 2, 1].sort(() => { for (;;); })", says=CPU),
            Program(
                "def key(x):\n    while True:\n        pass\nsorted([3, 2, 1], key=key)", says=CPU
            ),
        ),
        (
            "a loop in a getter of the result",
            "writing the result runs the script",
            Program("return {get x() { for (;;); }}", says=CPU),
            None,
        ),
        (
            "a loop in an equality",
            "a comparison is a call",
            Program(
                "return 1 == {[Symbol.toPrimitive]() { for (;;); }}",
                says=CPU,
            ),
            Program(
                "return Never() == Never()",
                "class Never:\n    def __eq__(self, other):\n        while True:\n            pass",
                says=CPU,
            ),
        ),
        (
            "a loop in what is logged",
            "showing a value runs the script",
            Program("console.log({toJSON() { for (;;); }})", says=CPU),
            Program(
                "print(Never())",
                "class Never:\n    def __repr__(self):\n        while True:\n            pass",
                says=CPU,
            ),
        ),
        (
            "a loop in an error's message",
            "explaining the failure runs the script",
            Program(
                "throw Object.defineProperty(new Error(), 'message', {get() { for (;;); }})",
                says=CPU,
            ),
            Program(
                "raise Never('x')",
                "class Never:\n    def __init__(self, x):\n        while True:\n            pass",
                says=CPU,
            ),
        ),
        (
            "a loop in a finally",
            "what was stopped once runs on in its last words",
            Program("try { for (;;); } finally { for (;;); }", says=CPU),
            Program(
                "try:\n    while True:\n        pass\nfinally:\n    while True:\n        pass",
                says=CPU,
            ),
        ),
        (
            "a limit is caught, again and again",
            "a limit that is an exception can be swallowed",
            Program("for (;;) try { for (;;); } catch {}", says=CPU),
            Program(
                "while True:\n    try:\n        while True:\n            pass\n"
                "    except BaseException:\n        pass",
                says=CPU,
            ),
        ),
        (
            "a pattern that backtracks",
            "matching is native code, exponential in the text",
            Program("return /^(([a-z])+.)+[A-Z]([a-z])+$/.test('a'.repeat(60))", says=CPU),
            Program("import re\nreturn bool(re.match(r'^(a+)+$', 'a' * 60 + 'b'))", returns=False),
        ),
        (
            "a search in native code",
            "the interpreter looks at the time only between its own instructions",
            Program(
                "return 'a'.repeat(2 ** 23).indexOf('a'.repeat(2 ** 22) + 'b')",
                says=f"{CPU}|{MEMORY}",
            ),
            Program("return ('a' * 2 ** 22).find('a' * 2 ** 21 + 'b')", returns=-1),
        ),
        (
            "an endless iterator is spread",
            "the list grows inside one instruction",
            Program(
                "return [...{*[Symbol.iterator]() { for (;;) yield 1 }}]", says=f"{CPU}|{MEMORY}"
            ),
            Program("return [x for x in iter(int, 1)]", says=MEMORY),
        ),
        (
            "a sum over more than there is time for",
            "one call, no loop of the script's own",
            Program(
                "return Array.from({length: 2 ** 31}, (_, i) => i).length", says=f"{CPU}|{MEMORY}"
            ),
            Program("return sum(range(10 ** 12))", says=CPU),
        ),
        (
            "one text of a gigabyte",
            "one instruction, one allocation",
            Program("return 'x'.repeat(2 ** 29).length", says=f"{MEMORY}|nvalid string length"),
            Program("return len('x' * 2 ** 30)", says=MEMORY),
        ),
        (
            "one buffer of a gigabyte",
            "a buffer lies outside of what the interpreter counts as objects",
            Program("return new Uint8Array(2 ** 30).length", says=f"{MEMORY}|buffer"),
            Program("return len(bytes(2 ** 30))", says=MEMORY),
        ),
        (
            "a width of a gigabyte",
            "formatting allocates what the format says",
            Program("return 'x'.padStart(2 ** 29).length", says=f"{MEMORY}|nvalid string length"),
            Program("return len(f'{1:1000000000}')", says=MEMORY),
        ),
        (
            "a text that doubles",
            "each step is small",
            Program("let s = 'x'; for (;;) s += s", says=f"{MEMORY}|nvalid string length"),
            Program("s = 'x'\nwhile True:\n    s = s + s", says=MEMORY),
        ),
        (
            "many small values",
            "no single allocation is large",
            Program("const a = []; for (;;) a.push({})", says=f"{MEMORY}|{CPU}"),
            Program("a = []\nwhile True:\n    a.append([1])", says=f"{MEMORY}|{CPU}"),
        ),
        (
            "a memory limit is caught",
            "who catches it has the memory, and goes on",
            Program(
                "try { const a = []; for (;;) a.push(Array(1000).fill(1.5)) } catch {} return 1",
                says=f"{MEMORY}|{CPU}",
            ),
            Program(
                "try:\n    a = 'x' * 2 ** 30\nexcept BaseException:\n    pass\nreturn 1",
                says=MEMORY,
            ),
        ),
        (
            "shared references in the result",
            "small inside, enormous once it is written out",
            Program(
                "let a = [1]; for (let i = 0; i < 40; i++) a = [a, a]; return a",
                says=f"at most|{MEMORY}|{CPU}",
            ),
            Program(BOMB + "return bomb", says=f"{MEMORY}|{CPU}|many values"),
        ),
        (
            "shared references in an argument",
            "the same on the other way out",
            Program(
                "let a = [1]; for (let i = 0; i < 40; i++) a = [a, a]; await ctx.echo.back({a})",
                says=f"at most|{MEMORY}|{CPU}",
            ),
            Program(BOMB + "await ctx.echo.back(x=bomb)", says=f"{MEMORY}|{CPU}|many values"),
        ),
        (
            "shared references in the log",
            "showing a value writes it out",
            Program(
                "let a = [1]; for (let i = 0; i < 40; i++) a = [a, a]; console.log(a)",
                says=f"{MEMORY}|{CPU}",
            ),
            Program(BOMB + "print(bomb)", says=f"{MEMORY}|{CPU}"),
        ),
        (
            "millions of tiny values in the result",
            "few bytes each to send, many in the host that reads them",
            Program("return Array(900000).fill(0)", says=f"{VALUES}|{CPU}"),
            Program("return [0] * 900000", says=f"{VALUES}|{MEMORY}"),
        ),
        (
            "millions of tiny values over many calls",
            "each call is within the limit",
            Program(
                "for (let i = 0; i < 10; i++) ctx.echo.back({x: Array(60000).fill(0)})",
                says=f"{VALUES}|{CPU}",
            ),
            Program(
                "for _ in range(10):\n    ctx.echo.back(x=[0] * 60000)",
                says=f"{VALUES}|{CPU}|{MEMORY}",
            ),
        ),
        (
            "an enormous number",
            "numbers without bound are memory without bound",
            Program("return String(2n ** (2n ** 40n)).length", says="BigInt|MiB"),
            Program("return 10 ** 10 ** 10", says=f"{MEMORY}|{CPU}"),
        ),
        (
            "a number that is slow to write",
            "digits cost the square of their count",
            Program("return String(3n ** 500000n).length", says=f"{CPU}|{MEMORY}"),
            Program("return len(str(3 ** 4000000))", says=f"{CPU}|{MEMORY}|digits"),
        ),
        (
            "deep recursion",
            "the stack of the interpreter is the stack of the process",
            Program("const f = () => f() + 1; return f()", says=DEEP),
            Program("return deep()", "def deep():\n    return deep() + 1", says=DEEP),
        ),
        (
            "deep recursion through native code",
            "each level takes more of the real stack than the interpreter thinks",
            Program("const f = () => [1].map(f); return JSON.stringify({toJSON: f})", says=DEEP),
            Program("return deep(1)", "def deep(x):\n    return sorted([x], key=deep)", says=DEEP),
        ),
        (
            "a proxy that asks itself",
            "a loop without a frame of the script",
            Program("const p = new Proxy({}, {get: (t, k, r) => r[k]}); return p.x", says=DEEP),
            Program(
                "return str(Self())",
                "class Self:\n    def __repr__(self):\n        return repr(self)",
                says=DEEP,
            ),
        ),
        (
            "a value nested without end",
            "writing or reading it recurses",
            Program("let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a", says="nested"),
            Program("a = []\nfor _ in range(100000):\n    a = [a]\nreturn a", says="nested"),
        ),
        (
            "a value that contains itself",
            "written out it never ends",
            Program("const a = []; a.push(a); return a", says="contains itself"),
            Program("a = []\na.append(a)\nreturn a", says="contains itself"),
        ),
        (
            "JSON nested without end is read",
            "a parser recurses on the real stack",
            Program("return JSON.parse('['.repeat(1e6))", says=DEEP),
            Program("import json\nreturn json.loads('[' * 1000000)", says="recursion limit"),
        ),
        (
            "a pattern nested without end",
            "so does the compiler of patterns",
            Program(
                "return new RegExp('('.repeat(1e5) + ')'.repeat(1e5)).test('')",
                says="too many captures",
            ),
            Program(
                "import re\nreturn bool(re.match('(' * 100000 + ')' * 100000, ''))",
                says="too deeply",
            ),
        ),
        (
            "text nested without end is compiled",
            "so does the compiler of scripts",
            Program("return eval('['.repeat(1e5) + ']'.repeat(1e5))", says=DEEP),
            None,
        ),
        (
            "the source itself is nested without end",
            "checks of the source run in the host",
            Program(module="const deep = " + "[" * 50_000 + "]" * 50_000 + '; "import"', says=DEEP),
            Program(module="deep = " + "(" * 50_000 + ")" * 50_000, says="too many nested"),
        ),
        (
            "the source is a sum without end",
            "a tree can be deep without a bracket",
            Program(module="const sum = " + "+".join(["1"] * 50_000) + '; "import"', returns=None),
            Program(module="total = " + "+".join(["1"] * 50_000), says="too deeply"),
        ),
        (
            "a list with holes without end",
            "its length is a number, its items are nowhere",
            Program("const a = []; a.length = 2 ** 32 - 1; return a", says="undefined"),
            Program("return list(range(10 ** 10))", says=f"{MEMORY}|{CPU}"),
        ),
        (
            "a flood of lines",
            "lines are kept by the host",
            Program(
                "for (let i = 0; i < 2000; i++) console.log('x'.repeat(2000)); return 1", returns=1
            ),
            Program("for i in range(200):\n    print('x' * 2000)\nreturn 1", returns=1),
        ),
        (
            "one line without end",
            "a line that never ends is kept until it does",
            Program("console.log('x'.repeat(4e6)); return 1", returns=1),
            Program("for i in range(200):\n    print('x' * 2000, end='')\nreturn 1", returns=1),
        ),
        (
            "a line of nothing but ends",
            "cutting it makes a million lines",
            Program("console.log('\\n'.repeat(5e4)); return 1", returns=1),
            Program("print('\\n' * 1000000)\nreturn 1", returns=1),
        ),
        (
            "a flood of calls",
            "calls that are not awaited pile up in the host",
            Program("for (;;) ctx.echo.back()", says="more than 20 calls"),
            Program("while True:\n    ctx.echo.back()", says="more than 20 calls"),
        ),
        (
            "a flood of publishes of nothing",
            "they are no calls of tools, and carry no bytes that are counted",
            Program("for (;;) ctx.publish()", says="more than 100 publishes"),
            Program("while True:\n    ctx.publish()", says="more than 100 publishes"),
        ),
        (
            "an answer as long as there is room",
            "one frame, as large as memory allows",
            Program("return 'x'.repeat(7e6) + 'y'.repeat(7e6)", says=f"at most|{MEMORY}"),
            Program("return 'x' * 7000000 + 'y' * 7000000", says=f"{MEMORY}|result"),
        ),
        (
            "the clock is asked without end",
            "each question is answered by the host",
            Program("for (;;) Date.now()", says=CPU),
            Program(
                "import time\nwhile True:\n    time.time()", says="asked more than|longer than"
            ),
        ),
        (
            "chance is asked for a gigabyte",
            "the host makes the bytes",
            Program("for (;;) Math.random()", says=CPU),
            Program("import os\nreturn len(os.urandom(2 ** 30))", says=MEMORY),
        ),
        (
            "tasks without end",
            "what is gathered is kept",
            Program(
                "const f = async () => { await null; return f() };\n"
                "return Promise.all(Array.from({length: 1000}, f))",
                says=f"{CPU}|{MEMORY}",
            ),
            Program(
                "import asyncio\nawait f()",
                "import asyncio\nasync def f():\n    await asyncio.gather(f(), f())",
                says=f"{CPU}|{MEMORY}|{DEEP}",
            ),
        ),
    )
)
