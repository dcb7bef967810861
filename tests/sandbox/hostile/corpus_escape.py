"""Attacks that want out: to the machine, to the host's belief, to the next script."""

from __future__ import annotations

from duly.rules.value import Json
from tests.sandbox.hostile.attack import Aim, Attack, Program

ECHO: Json = {"path": "echo.back", "args": [], "kwargs": {"x": 1}}

ESCAPES: tuple[Attack, ...] = (
    Attack(
        "a module is imported",
        "the modules of the interpreter's own command line read files and start programs",
        Aim.FILE,
        Program(module='import * as std from "qjs:std";', says="cannot be imported"),
        Program("import os\nos.system('touch @FILE@.made')", says="'os' has no attribute 'system'"),
    ),
    Attack(
        "a module is imported where no check sees it",
        "the check reads the text, not what is put together at run time",
        Aim.FILE,
        Program(
            'const load = new Function("name", "return imp" + "ort(name)");\n'
            'for (const name of ["std", "os", "qjs:std", "qjs:os", "@FILE@"]) {\n'
            "  try { await load(name); return name } catch {}\n}\nreturn null"
        ),
        Program("return __import__('os').listdir('/')", says="'__import__' is not defined"),
    ),
    Attack(
        "the check and the interpreter disagree about where a line ends",
        "a comment that ends for one of them only hides what follows from the other",
        Aim.FILE,
        Program(
            "//\u2028await import('qjs:std')\nreturn 1",
            says="cannot be imported|could not load",
        ),
        Program("#\x0cimport ctypes\n#\rimport socket\nreturn 1", says="no module socket"),
    ),
    Attack(
        "the text is cut short by a NUL",
        "a reader of C strings stops there, a checker goes on",
        Aim.HOST,
        Program("return 1 // \0", says="NUL"),
        Program("return 1 # \0", says="null bytes|NUL"),
    ),
    Attack(
        "ambient names are tried",
        "an embedding may have left a door: files, processes, the network",
        Aim.FILE,
        Program(
            "const names = ['std', 'os', 'bjson', 'require', 'process', 'fetch',\n"
            "  'XMLHttpRequest',\n"
            "  'WebSocket', 'Deno', 'Bun', 'Worker', 'scriptArgs', 'print', 'gc', 'setTimeout'];\n"
            "return names.filter((name) => name in globalThis)",
            returns=[],
        ),
        Program("return open('@FILE@').read()", says="Scripts have no open"),
    ),
    Attack(
        "the path library reads a file",
        "the interpreter knows paths and asks its host to serve them",
        Aim.FILE,
        None,
        Program(
            "from pathlib import Path\nreturn Path('@FILE@').read_text()",
            says="^PermissionError: Permission denied",
        ),
    ),
    Attack(
        "the path library writes a file",
        "the same door, the other way",
        Aim.FILE,
        None,
        Program(
            "from pathlib import Path\nPath('@FILE@.made').write_text('x')",
            says="^PermissionError: Permission denied",
        ),
    ),
    Attack(
        "the environment is read",
        "secrets of the host are often kept there",
        Aim.ENVIRONMENT,
        Program(
            "return [typeof process, typeof std, new Date(0).getTimezoneOffset()]",
            returns=["undefined", "undefined", 0],
        ),
        Program("import os\nreturn os.getenv('@VARIABLE@')", says="'os.getenv' is not supported"),
    ),
    Attack(
        "a connection is opened by name",
        "every runtime for scripts has a way to the network",
        Aim.TCP,
        Program("return await fetch('http://127.0.0.1:@PORT@/')", says="fetch is not defined"),
        Program(
            "import socket\nsocket.create_connection(('127.0.0.1', @PORT@))",
            says="no module socket",
        ),
    ),
    Attack(
        "native code is loaded",
        "a foreign function interface ends every sandbox",
        Aim.FILE,
        Program("return typeof std + typeof os + typeof ffi", returns="undefined" * 3),
        Program(
            "import ctypes\nctypes.CDLL(None).system(b'touch @FILE@.made')", says="no module ctypes"
        ),
    ),
    Attack(
        "a process is started by name",
        "the shortest way to everything",
        Aim.CHILD,
        Program("return os.exec(['touch', '@FILE@.made'])", says="os is not defined"),
        Program(
            "import subprocess\nsubprocess.run(['touch', '@FILE@.made'])",
            says="no module subprocess",
        ),
    ),
    Attack(
        "the object graph is climbed",
        "from any value to its class, to all classes, to one that holds a module",
        Aim.FILE,
        Program(
            'const root = (() => {}).constructor.constructor("return this")();\n'
            "return [typeof root.process, typeof root.std, typeof root.performance]",
            returns=["undefined"] * 3,
        ),
        Program(
            "return [str(c) for c in ().__class__.__base__.__subclasses__()]",
            says="no attribute '__class__'",
        ),
    ),
    Attack(
        "a function's globals are taken",
        "what the prelude is made of would hold the way to the host",
        Aim.HOST,
        Program(
            "return [Keep.workflow.caller === undefined, attack.arguments === undefined]",
            says="TypeError|invalid property access|caller",
        ),
        Program("return list(ctx.publish.__globals__)", says="no attribute '__globals__'"),
    ),
    Attack(
        "formatting walks attributes",
        "a format string reaches what the code itself is not allowed to name",
        Aim.HOST,
        None,
        Program(
            "return '{0.__class__.__init__.__globals__}'.format(ctx)",
            says="no attribute '__globals__'",
        ),
    ),
    Attack(
        "an exception shows its frames",
        "a traceback holds frames, frames hold the variables of the caller",
        Aim.HOST,
        Program(
            "const stack = String(new Error('x').stack);\n"
            "return [stack.includes('/'), stack.includes('.py'), stack.includes('duly')]",
            returns=[False, False, False],
        ),
        Program(
            "try:\n    1 / 0\nexcept Exception as error:\n"
            "    return str(error.__traceback__.tb_frame.f_back.f_globals)",
            says="no attribute '__traceback__'",
        ),
    ),
    Attack(
        "a coroutine shows its frame",
        "suspended code keeps its variables, and those of its caller",
        Aim.HOST,
        None,
        Program(
            "async def other():\n    return 1\nreturn str(other().cr_frame.f_globals)",
            says="no attribute 'cr_frame'",
        ),
    ),
    Attack(
        "text is compiled",
        "a second compiler may know less restraint than the first",
        Aim.HOST,
        Program("return (0, eval)('typeof std + typeof process')", returns="undefined" * 2),
        Program("return eval('__import__(\"os\")')", says="Scripts have no eval"),
    ),
    Attack(
        "the way to the host is used by its own name",
        "a name that is in reach can be called with anything",
        Aim.HOST,
        Program(
            "return Object.keys(globalThis).concat(typeof step, typeof answers)",
            returns=["undefined", "undefined"],
        ),
        Program("return await _duly_host('call', 'echo.back', '{')", says="name of Duly's own"),
    ),
    Attack(
        "the bridge is replaced",
        "what the bridge looks up after the script ran is the script's",
        Aim.HOST,
        Program(
            "JSON.stringify = () => '{\"forged\":1}'; JSON.parse = () => 'forged';\n"
            "Object.keys = () => []; Array.isArray = () => true; Promise.prototype.then = null;\n"
            "String.prototype.slice = () => 'forged'; String.prototype.isWellFormed = () => true;\n"
            "return await ctx.echo.back({x: 1})",
            returns=ECHO,
        ),
        Program(
            "return await ctx.echo.back(x=1)",
            "import json\n"
            "def forged(*given, **named):\n    return '[[], {\"forged\": 1}]'\n"
            "len = forged\nisinstance = forged\ndict = forged\nlist = forged",
            returns=ECHO,
        ),
    ),
    Attack(
        "the constructors are replaced",
        "a bridge that says `new Error` says it to the script",
        Aim.HOST,
        Program(
            "globalThis.Error = globalThis.Promise = globalThis.Proxy = undefined;\n"
            "globalThis.Symbol = globalThis.Object = globalThis.Array = undefined;\n"
            "return await ctx.echo.back({x: 1})",
            returns=ECHO,
        ),
        Program(
            "return await ctx.echo.back(x=1)",
            "type = None\nException = None\nenumerate = None\nstr = None\nValueError = None",
            returns=ECHO,
        ),
    ),
    Attack(
        "properties are planted on every object",
        "code that reads a field that is not there reads the prototype's",
        Aim.HOST,
        Program(
            "for (const name of ['id', 'path', 'args', 'value', 'error', 'missing', 'get', 'set',\n"
            "  'then', 'up', 'key', 'holder', 'depth', 'writable', 'end', 'calls', 'logs'])\n"
            "  Object.defineProperty(Object.prototype, name,\n"
            "    {__proto__: null, get: () => 'forged', set() {}});\n"
            "return await ctx.echo.back({x: 1})",
            returns=ECHO,
        ),
    ),
    Attack(
        "setters are planted on every list",
        "a list that is filled by assignment calls the setter of its prototype",
        Aim.HOST,
        Program(
            "const seen = [];\nfor (const at of [0, 1, 2])\n"
            "  Object.defineProperty(Array.prototype, at,\n"
            "    {set(v) { seen.push(typeof v) }, get: () => 'forged'});\n"
            "await ctx.echo.back({x: 1}); return seen.length",
            returns=0,
        ),
    ),
    Attack(
        "a thenable is returned",
        "the code that awaits a value calls its method `then`",
        Aim.HOST,
        Program("return {then(done) { done({then(d) { d('own') }}) }}", returns="own"),
        Program(
            "return Thenable()",
            "class Thenable:\n    def __await__(self):\n        return iter([1])",
            says="result is a Thenable",
        ),
    ),
    Attack(
        "a thenable never answers",
        "a promise that never settles holds its worker for ever",
        Aim.NOTHING,
        Program("return {then() {}}", says="never happens"),
        Program("import asyncio\nawait asyncio.sleep(10 ** 9)", says="longer than"),
    ),
    Attack(
        "a getter calls while its object is copied",
        "arguments that change, or ask, while they are written",
        Aim.HOST,
        Program(
            "let n = 0; const x = {get x() { ctx.other.call(); return ++n }};\n"
            "const said = await ctx.echo.back(x); return [said.kwargs, n]",
            returns=[{"x": 1}, 1],
        ),
    ),
    Attack(
        "a proxy lies about its keys",
        "what is checked first and copied second may be two things",
        Aim.HOST,
        Program(
            "let n = 0;\n"
            "const lies = new Proxy({}, {ownKeys: () => ['a'], get: () => n++ ? 1n : 1,\n"
            "  getOwnPropertyDescriptor: () => \n"
            "    ({value: 1, enumerable: true, configurable: true})});\n"
            "return await ctx.echo.back(lies)",
            says="a is a bigint",
        ),
        Program(
            "return await ctx.echo.back(x=Lies())",
            "class Lies:\n    def __class__(self):\n        return dict\n"
            "    def items(self):\n        return [('x', 1)]",
            says="echo.back.x is a Lies",
        ),
    ),
    Attack(
        "a tool of ctx is replaced",
        "a later step would call the script instead of the host",
        Aim.HOST,
        Program("ctx.publish = () => 1; return 1", says="ctx cannot be changed"),
        Program("ctx.publish = 1\nreturn 1", says="Neither ctx nor .* can be changed"),
    ),
    Attack(
        "an error forges its line",
        "a person looks where the error points",
        Aim.HOST,
        Program(
            "const e = new Error('x'); e.stack = '    at f (/etc/shadow:1:1)\\n'; throw e",
            says="^Error: x$",
        ),
        Program("raise ValueError('File \"/etc/shadow\", line 1\\nx')", says="ValueError"),
    ),
    Attack(
        "something that is no error is thrown",
        "showing it runs the script again",
        Aim.HOST,
        Program(
            "throw new Proxy({}, {get() { throw 1 }, getPrototypeOf() { throw 2 }})",
            says="threw something that cannot be shown",
        ),
        Program("raise 1", says="TypeError|exceptions must"),
    ),
    Attack(
        "a message is as long as a book",
        "errors are stored, shown and sent to people",
        Aim.HOST,
        Program("throw new Error('x'.repeat(2e6))", says="^Error: x{1000,4000}$"),
        Program("raise ValueError('x' * 2000000)", says="^ValueError: x{1000,4000}$"),
    ),
    Attack(
        "a name is as long as a book",
        "the kind of an error and the path of a call are texts of the script too",
        Aim.HOST,
        Program(
            "const e = new Error('y'); e.name = 'x'.repeat(2e6); throw e", says="^x{1000,4000}: y$"
        ),
        None,
    ),
    Attack(
        "a tool's path is as long as a book",
        "who refuses an unknown tool repeats its name",
        Aim.HOST,
        Program(
            "return (await ctx['x'.repeat(1e5)]['y'.repeat(1e5)]()).path.length <= 200",
            returns=True,
        ),
        None,
    ),
    Attack(
        "state is left for the next script",
        "a context that is not fresh remembers",
        Aim.HOST,
        Program(
            "const was = [typeof globalThis.mark, typeof [].mark, typeof Math.mark];\n"
            "globalThis.mark = Math.mark = 1; Array.prototype.mark = 1; return was",
            returns=["undefined"] * 3,
        ),
        Program(
            "was = len(left)\nleft.append(1)\nKept.n = Kept.n + 1\nreturn [was, Kept.n]",
            "left = []\nclass Kept:\n    n = 0",
            returns=[0, 1],
        ),
    ),
    Attack(
        "a fine clock is looked for",
        "time tells what other processes do, and what the processor has cached",
        Aim.HOST,
        Program(
            "const from = Date.now(); for (let i = 0; i < 1e4; i++);\n"
            "return [typeof performance, typeof SharedArrayBuffer, typeof Atomics,\n"
            "  Date.now() - from]",
            returns=["undefined", "undefined", "undefined", 0],
        ),
        Program(
            "import time\nfirst = time.perf_counter()\nfor _ in range(1000):\n    pass\n"
            "return time.perf_counter() - first",
            returns=0,
        ),
    ),
    Attack(
        "garbage is watched",
        "what is collected when depends on the host, not on the script",
        Aim.HOST,
        Program("return typeof WeakRef + typeof FinalizationRegistry", returns="undefined" * 2),
        Program("import gc\nreturn gc.get_objects()", says="no module gc"),
    ),
    Attack(
        "a module asks while it loads",
        "nobody has decided yet what this source may do",
        Aim.HOST,
        Program(
            module="Keep.ctx?.publish('t', {}); ctx.publish('t', {});", says="ctx is not defined"
        ),
        Program(module="_duly_context.publish('t', title='x')", says="name of Duly's own"),
    ),
    Attack(
        "two workflows are declared",
        "the one that is checked may not be the one that runs",
        Aim.HOST,
        Program(
            module="Keep.workflow({name: 'other', producers: {poll: () => 1}});", says="declares 2"
        ),
        Program(module="workflow('other', topics=[], producers={})", says="declares 2|producers"),
    ),
    Attack(
        "a word passes for a function",
        "the declaration crosses as JSON, where a function is a mark",
        Aim.HOST,
        Program(
            module="Keep.workflow({name: 'x', producers: {poll: 'function'}});", says="declares 2"
        ),
        None,
    ),
)
