//! Programs in Python: the runtime is built once with componentize-py from PyPI, and then runs programs of people and of
//! models, several calls at once, killed after any event, with a person who approves, and hostile ones. Skipped, with a
//! line on stderr, where the package cannot be had.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/python.rs"]
mod python;

#[path = "support/server.rs"]
mod server;

#[path = "python_programs/sources.rs"]
mod sources;

use opcell_journal::{Journal as _, NewRun, Record, SqliteJournal};
use serde_json::{Value, json};
use server::Server;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A project and the user whose runtime it runs with.
struct Place {
    folder: tempfile::TempDir,
}

/// The home of a user who has the runtime, built once; `None` where its tools cannot be had.
fn home() -> Option<&'static Path> {
    static HOME: OnceLock<Option<PathBuf>> = OnceLock::new();
    let home = HOME.get_or_init(|| {
        let bin = python::installed(&["componentize-py==0.25.1"])?;
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-programs");
        fs::create_dir_all(&home).unwrap();
        let path = format!("{}:{}", bin.display(), env::var("PATH").unwrap());
        let install = opcell(&home, &home).args(["code", "install", "python"]).env("PATH", path).output().unwrap();
        assert!(install.status.success(), "{}", text(&install.stderr));
        Some(home)
    });
    home.as_deref()
}

fn opcell(folder: &Path, home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opcell"));
    command.current_dir(folder).env("HOME", home).stdin(Stdio::null());
    for name in ["XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "OPCELL_CACHE"] {
        command.env_remove(name);
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A session with the tool `bash`, whose model writes programs in Python.
const SESSION: &str = r#"workflows = ["."]

[sessions]
script = "script.yaml"
context-files = "none"

[sessions.defaults]
tools = ["bash"]
code = "python"
max-tool-calls = 30

[sessions.bash]
dangerous = true
"#;

const WORKFLOW: &str = r#"{:name "w" :description "A model that tidies up"
 :steps [{:name "talk" :type :session :contributions [{:type :template :text "Tidy up." :vars {}}]}]}"#;

impl Place {
    /// A project with this file; `None` where programs cannot be run.
    fn new(project: &str) -> Option<Self> {
        home()?;
        let place = Self { folder: tempfile::tempdir().unwrap() };
        place.write("opcell.toml", project);
        Some(place)
    }

    /// A session whose model writes one program.
    fn session(project: &str, program: &str) -> Option<Self> {
        let place = Self::new(&format!("{SESSION}{project}"))?;
        let call = json!({"name": "run_code", "arguments": {"source": program}});
        let script = json!({"version": 1, "order": "any", "turns": [
            {"when": {"round": 0}, "tool-calls": [call]}, {"when": {"round": 1}, "repeat": true, "text": "Tidy."},
        ]});
        place.write("script.yaml", &script.to_string());
        place.write("w.edn", WORKFLOW);
        place.done(&["trust"]);
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn command(&self) -> Command {
        opcell(self.folder.path(), home().unwrap())
    }

    fn opcell(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.opcell(arguments);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "opcell {}: {}\n{out}\n{err}", arguments.join(" "), output.status);
        out
    }

    /// The result of a program with the input `{"n": 5}`.
    fn result(&self, program: &str) -> Value {
        self.write("p.py", program);
        serde_json::from_str(&self.done(&["code", "run", "p.py", "--input", r#"{"n": 5}"#, "--quiet"])).unwrap()
    }

    /// The messages of a program that fails.
    fn failure(&self, program: &str) -> String {
        self.write("p.py", program);
        let output = self.opcell(&["code", "run", "p.py", "--quiet"]);
        let err = text(&output.stderr);
        assert!(!output.status.success(), "{program}: {}", text(&output.stdout));
        err
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.opcell(arguments);
        text(&output.stdout) + &text(&output.stderr)
    }

    fn shown(&self, run: &str) -> Value {
        serde_json::from_str(&self.done(&["runs", "show", run, "--json"])).unwrap()
    }

    /// The names of a run's open questions.
    fn questions(&self, run: &str) -> Vec<String> {
        fn collect(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    if let Some(id) = fields.get("id").and_then(Value::as_str)
                        && id.len() == 32
                        && fields.contains_key("tool")
                    {
                        found.push(id.to_owned());
                    }
                    fields.values().for_each(|field| collect(field, found));
                }
                Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        collect(&self.shown(run)["questions"], &mut found);
        found
    }

    /// Returns `true` if a reply of the run has this in it.
    fn has_result(&self, journal: &str, expected: &str) -> bool {
        let records = records(&self.path(journal));
        records.iter().any(|record| &*record.kind == "replied" && record.payload.contains(expected))
    }

    /// The lines of the file `calls`, sorted.
    fn calls(&self) -> Vec<String> {
        let mut calls: Vec<String> =
            fs::read_to_string(self.path("calls")).unwrap_or_default().lines().map(str::to_owned).collect();
        calls.sort();
        calls
    }
}

#[test]
fn programs_have_results_or_failures_with_their_line() {
    let Some(place) = Place::new("[limits]\nticks = 200\n") else { return };
    for (source, expected) in [
        ("import statistics\nprint('x')\nstatistics.mean(range(input['n']))", json!(2)),
        ("import random, uuid\nreturn random.random() != random.random() and len(str(uuid.uuid4()))", json!(36)),
        (
            "async def one(n):\n    await asyncio.sleep(0)\n    return n\nreturn await asyncio.gather(one(1), one(2))",
            json!([1, 2]),
        ),
        (
            "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nreturn [P(1), {P(2).x: 'a'}]",
            json!([{"x": 1}, {"2": "a"}]),
        ),
        (
            "try:\n    tools.nothing()\nexcept ToolDenied as denied:\n    return denied.capability",
            json!("tool nothing"),
        ),
        (
            "try:\n    await asyncio.gather(tools.nothing())\nexcept ToolDenied as denied:\n    return denied.capability",
            json!("tool nothing"),
        ),
        ("def f(n): return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError:\n    return 'caught'", json!("caught")),
        ("async def main():\n    return 7\nreturn asyncio.run(main())", json!(7)),
        // Timers order what waits, and time out what waits too long.
        (
            "out = []\nasync def one(n):\n    await asyncio.sleep(n / 100)\n    out.append(n)\n\
             await asyncio.gather(*map(one, [3, 1, 2]))\nreturn out",
            json!([1, 2, 3]),
        ),
        (
            "try:\n    await asyncio.wait_for(asyncio.Event().wait(), 0.01)\nexcept TimeoutError:\n    return 'late'",
            json!("late"),
        ),
        (
            "queue = asyncio.Queue()\nasync def take():\n    return await queue.get()\n\
             waiting = asyncio.create_task(take())\nawait queue.put(4)\nreturn await waiting",
            json!(4),
        ),
    ] {
        assert_eq!(place.result(source), expected, "{source}");
    }
    for (source, said) in [
        ("x = 1\nreturn x / 0", "program-failed: ZeroDivisionError: division by zero, at program.py:2: `return x / 0`"),
        ("return 1 +", "program-failed: SyntaxError: invalid syntax, at program.py:1: `return 1 +`"),
        ("return {1, object()}", "program-failed: TypeError"),
        ("import socket\nsocket.create_connection(('example.com', 80))", "program-failed"),
        ("import subprocess\nsubprocess.run(['ls'])", "program-failed"),
        ("import threading\nthreading.Thread(target=print).start()", "program-failed: RuntimeError"),
        ("open('/etc/passwd')", "program-failed: FileNotFoundError"),
        ("await asyncio.Event().wait()", "program-stuck: the program waits for something that nothing settles"),
        ("async with asyncio.TaskGroup() as group:\n    group.create_task(tools.nothing())", "denied"),
    ] {
        let said_now = place.failure(source);
        assert!(said_now.contains(said), "{source}: {said_now}");
    }
}

/// Two calls of which each ends only after the other has begun, and more.
const AT_ONCE: &str = r#"
def after(file):
    return f"until test -e {file}; do sleep 0.02; done"
async def bash(command):
    return (await tools.bash(command=command))["stdout"].strip()
one, two = await asyncio.gather(
    tools.bash(command=f"touch a; {after('b')}; echo one"), tools.bash(command=f"touch b; {after('a')}; echo two"),
)
both = [one["stdout"].strip(), two["stdout"].strip()]
# Of coroutines, and of tasks that were made before.
tasks = [asyncio.create_task(bash(f"touch c; {after('d')}; echo three")), asyncio.create_task(bash(f"touch d; {after('c')}; echo four"))]
both += [await task for task in tasks]
# As they end.
started = [tools.bash(command=f"{after('e')}; echo late"), tools.bash(command="touch e; sleep 0.2; echo early")]
ended = []
for next_one in asyncio.as_completed([bash(f"{after('f')}; echo late"), bash("echo early")]):
    ended.append(await next_one)
    await bash("touch f")
both += [one["stdout"].strip() for one in await asyncio.gather(*started)]
# A call that is not allowed fails alone, and a timer runs beside calls.
settled = await asyncio.gather(call("write", {}), bash("echo allowed"), asyncio.sleep(0.001), return_exceptions=True)
slow = asyncio.ensure_future(bash(f"{after('g')}; echo slow"))
done, _ = await asyncio.wait([slow], timeout=0.01)
await bash("touch g")
return {"both": both, "ended": ended, "settled": [type(one).__name__ for one in settled], "timed": len(done), "slow": await slow}
"#;

#[test]
fn calls_that_are_gathered_are_in_progress_at_once() {
    let Some(place) = Place::session("", AT_ONCE) else { return };
    place.done(&["run", "w.edn", "--journal=w.db", "--as", "w", "--quiet"]);
    let expected = r#"{"result":{"both":["one","two","three","four","late","early"],"ended":["early","late"],"settled":["ToolDenied","str","NoneType"],"timed":0,"slow":"slow"}}"#;
    assert!(place.has_result("w.db", expected), "{}", place.run(&["runs", "show", "w", "--journal=w.db"]));
    assert!(place.run(&["runs", "replay", "w", "--journal=w.db"]).contains("decides the same"));
}

#[test]
fn no_more_calls_than_the_limit_are_in_progress() {
    let program = r#"
async def one(number):
    await tools.bash(command="echo begin >>calls; ls busy.* 2>/dev/null | wc -l >>most; touch busy.$$; sleep 0.1; rm busy.$$")
await asyncio.gather(*[one(number) for number in range(9)])
"#;
    let Some(place) = Place::session("", program) else { return };
    place.done(&["run", "w.edn", "--journal", "--as", "w", "--quiet"]);
    assert_eq!(place.calls().len(), 9);
    let most = fs::read_to_string(place.path("most")).unwrap();
    let most = most.lines().map(|line| line.trim().parse::<usize>().unwrap()).max().unwrap();
    // Eight at once: the one that begins last sees at most seven others.
    assert!((1..8).contains(&most), "{most}");
}

#[test]
fn a_host_that_dies_in_the_middle_of_calls_at_once_leaves_those_that_have_ended() {
    let program = r#"
ended = []
async def one(name, command):
    await tools.bash(command=command)
    ended.append(name)
await asyncio.gather(
    one("slow", "echo slow >>calls; test -e begun || { touch begun; sleep 60; }"),
    one("second", "until test -e first; do sleep 0.02; done; sleep 0.2; echo second >>calls"),
    one("first", "echo first >>calls; touch first"),
)
return ended
"#;
    let Some(place) = Place::session("", program) else { return };
    let mut host =
        place.command().args(["run", "w.edn", "--journal", "--as", "w"]).stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let have_ended = |place: &Place| {
        place.path("begun").exists() && place.calls().len() == 3 && {
            place
                .run(&["runs", "show", "w"])
                .lines()
                .filter(|line| line.contains("call ") && line.contains(r#""exit":0"#))
                .count()
                == 2
        }
    };
    while !have_ended(&place) {
        assert!(
            began.elapsed() < PATIENCE && host.try_wait().unwrap().is_none(),
            "{}",
            place.run(&["runs", "show", "w"])
        );
        thread::sleep(Duration::from_millis(50));
    }
    host.kill().unwrap();
    host.wait().unwrap();
    let said = place.run(&["runs", "resume", "w", "--quiet"]);
    assert!(said.contains("must not be repeated without confirmation"), "{said}");
    place.done(&["runs", "resume", "w", "--retry", "--quiet"]);
    assert_eq!(place.calls(), ["first", "second", "slow", "slow"], "only the call in doubt is made again");
    let shown = place.done(&["runs", "show", "w"]);
    assert!(shown.contains(r#"{"result":["first","second","slow"]}"#), "{shown}");
}

/// A program that calls, gathers, sleeps, reads the clock and draws lots.
const TOUR: &str = r#"
import random, time
luck, at = random.random(), time.time()
await tools.bash(command=f"echo one {luck} {at} >>calls")
async def one(name):
    result = await tools.bash(command=f"echo {name} {random.random()} >>calls")
    return result["exit"]
codes = await asyncio.gather(one("two"), one("three"))
await asyncio.sleep(0.01)
tools.bash(command="exit 3")
tools.bash(command=f"echo four {luck} {at} >>calls")
return codes
"#;

/// The records of a run.
fn records(journal: &Path) -> Vec<Record> {
    let journal = SqliteJournal::open(journal).unwrap();
    block_on(journal.read(&"w".into(), 0, 10_000)).unwrap()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A journal whose run ends with these records, as its driver left it when it died.
fn holding(journal: &Path, records: Vec<Record>) {
    let journal = SqliteJournal::open(journal).unwrap();
    block_on(async {
        let at = records[0].at;
        let fence = journal.create(NewRun { records, ..NewRun::empty(&"w".into(), "w", at) }).await.unwrap();
        journal.release(&"w".into(), fence).await.unwrap();
    });
}

#[test]
fn a_program_that_is_killed_after_any_event_makes_no_call_twice() {
    let Some(place) = Place::session("", TOUR) else { return };
    place.done(&["run", "w.edn", "--journal=whole.db", "--as", "w", "--quiet"]);
    let calls = place.calls();
    assert_eq!(calls.len(), 4, "{calls:?}");
    let said = |journal: &str| {
        let shown = place.done(&["runs", "show", "w", "--journal", journal]);
        shown.lines().find(|line| line.contains(r#"{"result":"#)).unwrap_or_else(|| panic!("{shown}")).to_owned()
    };
    let expected = said("whole.db");
    assert!(expected.contains(r#"{"result":[0,0]}"#), "{expected}");
    let records = records(&place.path("whole.db"));
    let started = records.iter().position(|record| &*record.kind == "inner-started").unwrap();
    let ended = |keep: usize| records[..keep].iter().filter(|record| &*record.kind == "inner-replied").count();
    let mut asked = 0;
    for keep in started + 1..records.len() {
        let journal = format!("cut-{keep}.db");
        holding(&place.path(&journal), records[..keep].to_vec());
        fs::remove_file(place.path("calls")).ok();
        let resume = ["runs", "resume", "w", "--quiet", "--journal", &journal];
        if place.run(&resume).contains("without confirmation") {
            place.done(&[&resume[..], &["--retry"]].concat());
            asked += 1;
        }
        assert_eq!(said(&journal), expected, "after event {keep}");
        let again = place.calls();
        // Nothing had been called: another time is read, and all calls are made.
        if !records[..keep].iter().any(|record| &*record.kind == "inner-requested") {
            assert_eq!(again.len(), 4, "after event {keep}: {again:?}");
            continue;
        }
        // With the same luck and the same time; what has ended is not made again.
        assert!(again.iter().all(|call| calls.contains(call)), "after event {keep}: {again:?} of {calls:?}");
        assert!(again.len() <= 4 && (ended(keep) < 6 || again.is_empty()), "after event {keep}: {again:?}");
        assert!(again.windows(2).all(|two| two[0] != two[1]), "after event {keep}: {again:?}");
    }
    assert!(asked >= 3, "{asked}");
}

#[test]
fn two_of_four_calls_at_once_wait_for_a_person() {
    let program = r#"
async def one(command):
    try:
        await tools.bash(command=command)
        return "done"
    except ToolError as error:
        return error.reason
return await asyncio.gather(*[one(command) for command in ["echo x >>calls", "rm -r build", "rm -r kept", "echo y >>calls"]])
"#;
    let approve = "\n[tools.bash]\napprove = { when = { commands = [\"rm\"] } }\n";
    let Some(place) = Place::session(approve, program) else { return };
    fs::create_dir(place.path("build")).unwrap();
    fs::create_dir(place.path("kept")).unwrap();
    place.run(&["run", "w.edn", "--journal", "--as", "w", "--quiet"]);
    assert_eq!(place.calls(), ["x", "y"], "the others end first");
    let questions = place.questions("w");
    assert_eq!(questions.len(), 2, "{}", place.run(&["runs", "show", "w"]));
    place.done(&["runs", "approve", "w", "--by", "ann", "--question", &questions[0]]);
    place.run(&["runs", "resume", "w", "--quiet"]);
    assert_eq!(place.questions("w").len(), 1, "one of them has no answer yet");
    place.done(&["runs", "approve", "w", "--refuse", "--by", "ann", "--question", &place.questions("w")[0]]);
    place.done(&["runs", "resume", "w", "--quiet"]);
    let shown = place.done(&["runs", "show", "w"]);
    assert!(shown.contains(r#"{"result":["done","done","approval-refused","done"]}"#), "{shown}");
    assert!(!place.path("build").exists() && place.path("kept").exists());
    assert_eq!(place.calls(), ["x", "y"]);
}

/// Programs that attack, each with a part of what is said of it.
const HOSTILE: &[(&str, &str)] = &[
    ("while True: pass", "interrupted: computing time limit reached"),
    (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "interrupted: computing time limit reached",
    ),
    ("import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')", "interrupted: computing time limit reached"),
    ("x = 10 ** 10 ** 8\nreturn str(x)", "interrupted: computing time limit reached"),
    ("async def f():\n    while True: await asyncio.sleep(0)\nawait f()", "interrupted: computing time limit reached"),
    ("def f():\n    while True: yield 1\nsum(f())", "interrupted: computing time limit reached"),
    ("class A:\n    def __getattr__(self, key): return getattr(self, key)\nA().x", "recurses too deeply"),
    (
        "class A:\n    def __repr__(self):\n        while True: pass\nraise Exception(A())",
        "interrupted: computing time limit reached",
    ),
    (
        "class E(Exception):\n    def __str__(self): raise E()\nraise E()",
        "program-failed: an exception that cannot be read",
    ),
    ("class E(Exception):\n    __class__ = property(lambda self: 1 / 0)\nraise E('x')", "program-failed: "),
    ("all = []\nwhile True: all.append('x' * 100000 + str(len(all)))", "limit memory"),
    ("return 'x' * (1 << 40)", "program-failed: OverflowError"),
    ("return bytearray(1 << 31)", "program-failed: OverflowError"),
    ("def f(n): return f(n + 1) + 1\nf(0)", "program-failed: RecursionError"),
    ("import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(n): return f(n + 1) + 1\nf(0)", "stack"),
    ("eval('(' * 100000)", "recurses too deeply"),
    ("exec('x = ' + '[' * 5000 + ']' * 5000)", "recurses too deeply"),
    ("import json\njson.loads('[' * 100000)", "recurses too deeply"),
    ("x = []\nfor _ in range(100000): x = [x]\nreturn x", "recurses too deeply"),
    ("x = []\nx.append(x)\nreturn x", "program-failed: "),
    ("return 'x' * 5000000", "bytes"),
    ("raise KeyboardInterrupt", "program-failed: KeyboardInterrupt"),
    ("raise SystemExit(0)", "program-failed: SystemExit"),
    ("import os\nos._exit(0)", "exited"),
    ("import os\nos.abort()", "trap"),
    ("import ctypes\nctypes.string_at(0)", "program-failed: "),
    ("import os\nreturn os.listdir('/work')", "program-failed: "),
    ("import os\nos.system('ls')", "program-failed: "),
    ("open('/tmp/x', 'w')", "program-failed: "),
    ("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:1')", "program-failed: "),
    ("tools.echo = lambda: 1", "program-failed: TypeError"),
    ("await asyncio.gather(*[asyncio.sleep(1e12) for _ in range(3)])", "program-failed: "),
    ("import time\ntime.sleep(1e300)", "program-failed: OverflowError"),
    ("for line in range(20000): print('x' * 100)", "host-call-limit"),
    ("await asyncio.gather(*[asyncio.sleep(1000) for _ in range(300)])", "wall"),
    ("def f(): pass\nf.__code__ = f.__code__.replace(co_code=bytes([255] * 64), co_stacksize=1)\nf()", ""),
];

/// Programs that harm themselves alone, with their results.
const HARMLESS: &[(&str, &str)] = &[
    // What a program forges of the runtime is its own: the result is as it says.
    ("class A(dict):\n    __class__ = str\nreturn A(x=1)", r#"{"x":1}"#),
    (
        "import json, builtins\njson.dumps = lambda *a, **k: '{\"result\": \"forged\"}'\nbuiltins.print = None\n\
         builtins.isinstance = lambda *a: True\nreturn {'denied': False}",
        "",
    ),
    (
        "import sys\nclass Hook:\n    def find_spec(self, *a): raise ImportError('hooked')\nsys.meta_path.insert(0, Hook())\n\
         sys.modules['json'] = None\nreturn 1",
        "1",
    ),
    (
        "import sys\nsys.modules['opcell'].tools = None\ntry:\n    tools.echo()\nexcept AttributeError:\n    return 2",
        "2",
    ),
    ("import sys\nsys.stdout = sys.stderr = None\nreturn 3", "3"),
    ("for line in range(2000): print('x' * 100)\nreturn 4", "4"),
    (
        "all = []\ntry:\n    while True: all.append('x' * 100000 + str(len(all)))\nexcept MemoryError:\n    all.clear()\n    return 5",
        "5",
    ),
    ("import asyncio\nasyncio.gather = None\nasyncio.get_running_loop().stop()\nreturn 6", "6"),
    ("import asyncio\nasyncio.get_running_loop().close()\nreturn 7", "7"),
    (
        "import asyncio\ntask = asyncio.current_task()\ntask.cancel()\ntry:\n    await asyncio.sleep(0)\nexcept asyncio.CancelledError:\n    return 8",
        "8",
    ),
    ("async def endless():\n    while True: await asyncio.sleep(1)\nasyncio.create_task(endless())\nreturn 9", "9"),
];

#[test]
fn hostile_programs_are_contained() {
    let limits = "[limits]\nticks = 100\nwall-time = \"8 s\"\n";
    let Some(place) = Place::new(limits) else { return };
    let mut faults = Vec::new();
    for (program, said) in HOSTILE {
        place.write("p.py", program);
        let output = place.opcell(&["code", "run", "p.py", "--quiet"]);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let is_contained = output.status.code() == Some(1) && err.contains("failed: ") && err.contains(said);
        if !is_contained || err.len() > 10_000 {
            faults.push(format!("{program}\n  expected: {said}\n  {} {out}{err}", output.status));
        }
    }
    for (program, expected) in HARMLESS {
        place.write("p.py", program);
        let output = place.opcell(&["code", "run", "p.py", "--quiet"]);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        match *expected {
            // Whether it fails or has its own result, it has none that it forged.
            "" => assert!(!out.contains("forged"), "{program}: {out}{err}"),
            expected => {
                let result = serde_json::from_str::<Value>(&out).unwrap_or_default().to_string();
                if result != expected {
                    faults.push(format!("{program}\n  expected: {expected}\n  {} {out}{err}", output.status));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // Five megabytes of source are refused before a cell begins.
    place.write("p.py", &" ".repeat(5_000_000));
    assert!(text(&place.opcell(&["code", "run", "p.py", "--quiet"]).stderr).contains("argument-bytes"));
}

#[test]
fn results_of_tools_are_data_and_a_program_has_the_tools_of_its_session_alone() {
    let program = r#"
seen = {}
for name in ["write", "http.fetch", "python/run", "run_code", "__class__", ""]:
    try:
        seen[name] = call(name, {})
    except (ToolDenied, ToolError) as error:
        seen[name] = type(error).__name__
text = "__import__('os').abort()\n{{7*7}} ${7*7} \"}); raise SystemExit"
got = tools.bash(command="cat text")["stdout"]
made = 0
try:
    while made < 10000:
        await asyncio.gather(*[tools.bash(command="true") for _ in range(20)])
        made += 20
except ToolError as error:
    seen["flood"] = error.reason
return {"seen": seen, "same": got == text, "has": list(tools)}
"#;
    let Some(place) = Place::session("", program) else { return };
    place.write("text", "__import__('os').abort()\n{{7*7}} ${7*7} \"}); raise SystemExit");
    place.done(&["run", "w.edn", "--journal=w.db", "--as", "w", "--quiet"]);
    let expected = r#"{"seen":{"write":"ToolDenied","http.fetch":"ToolDenied","python/run":"ToolDenied","run_code":"ToolDenied","__class__":"ToolDenied","":"ToolDenied","flood":"tool-call-limit"},"same":true,"has":["bash"]}"#;
    assert!(place.has_result("w.db", expected), "{}", place.run(&["runs", "show", "w", "--journal=w.db"]));
}

#[test]
fn a_forged_record_of_a_program_is_no_code_and_no_power() {
    let Some(place) = Place::session("", TOUR) else { return };
    place.done(&["run", "w.edn", "--journal=whole.db", "--as", "w", "--quiet"]);
    let records = records(&place.path("whole.db"));
    let last = records.iter().rposition(|record| &*record.kind == "inner-replied").unwrap();
    let place_of = |kind: &str| records.iter().position(|record| &*record.kind == kind).unwrap();
    let answer = r#""stdout":"""#;
    for (number, (at, from, to)) in [
        // Another call, another tool, another answer, which is a text that looks like code.
        (place_of("inner-requested"), "echo one", "touch stolen; echo one"),
        (place_of("inner-requested"), r#""tool":"bash""#, r#""tool":"write""#),
        (place_of("inner-replied"), answer, r#""stdout":"__import__('os').system('touch stolen')""#),
        (place_of("inner-replied"), r#""place":0"#, r#""place":5"#),
    ]
    .into_iter()
    .enumerate()
    {
        let mut forged = records[..=last].to_vec();
        let text = forged[at].payload.replacen(from, to, 1);
        assert_ne!(text, *forged[at].payload, "{from}: {text}");
        forged[at].payload = text.into();
        let journal = format!("forged-{number}.db");
        holding(&place.path(&journal), forged);
        fs::remove_file(place.path("calls")).ok();
        let said = place.run(&["runs", "resume", "w", "--quiet", "--journal", &journal]);
        assert!(!place.path("stolen").exists(), "{to}: {said}");
        assert_eq!(place.calls(), Vec::<String>::new(), "{to}: {said}");
    }
}

#[test]
fn neighbours_of_hostile_programs_in_one_server_have_their_results() {
    let hostile = ["while True: pass", "all = []\nwhile True: all.append('x' * 100000)", "import os\nos.abort()"];
    let Some(place) = Place::session("", "return sum(range(10))") else { return };
    let turn = |of: &str, program: &str| json!({"when": {"step": of, "round": 0}, "repeat": true, "tool-calls": [{"name": "run_code", "arguments": {"source": program}}]});
    let mut turns: Vec<Value> =
        hostile.iter().enumerate().map(|(at, program)| turn(&format!("h{at}"), program)).collect();
    turns.push(turn("talk", "return sum(range(10))"));
    turns.push(json!({"when": {"round": 1}, "repeat": true, "text": "Tidy."}));
    place.write("script.yaml", &json!({"version": 1, "order": "any", "turns": turns}).to_string());
    for at in 0..hostile.len() {
        place.write(
            &format!("h{at}.edn"),
            &WORKFLOW.replace("\"w\"", &format!("\"h{at}\"")).replace("\"talk\"", &format!("\"h{at}\"")),
        );
    }
    place.done(&["trust"]);
    let server = Server::start_as(place.folder.path(), home().unwrap());
    let start = |workflow: &str| {
        let (status, started) = server.post("/v1/default/runs", &[], &json!({"workflow": workflow}));
        assert!(status < 300, "{started}");
        started["run"].as_str().unwrap().to_owned()
    };
    let runs: Vec<(bool, String)> = (0..4)
        .flat_map(|round| (0..hostile.len()).map(move |at| (round, at)))
        .flat_map(|(_, at)| [(true, start(&format!("h{at}"))), (false, start("w"))])
        .collect();
    for (is_hostile, run) in runs {
        server.wait_for(&run, "completed");
        let (_, shown) = server.get(&format!("/v1/default/runs/{run}/events"));
        let events = shown.to_string();
        assert_eq!(events.contains(r#"\"result\":45"#) || events.contains(r#""result":45"#), !is_hostile, "{events}");
    }
}

#[test]
fn a_recorded_program_runs_again_with_its_answers_and_calls_nothing() {
    let program = "import random, time\nluck, at = random.random(), time.time()\n\
                   one, two = await asyncio.gather(tools.bash(command='echo one >>calls; echo one'), tools.bash(command='echo two >>calls'))\n\
                   return [one['stdout'].strip(), two['exit'], luck, at]\n";
    let Some(place) = Place::session("", program) else { return };
    place.done(&["run", "w.edn", "--journal", "--as", "w", "--quiet"]);
    let calls = place.calls();
    let first = place.done(&["code", "run", "--replay", "w", "--quiet"]);
    assert!(first.contains("\"one\""), "{first}");
    assert_eq!(place.done(&["code", "run", "--replay", "w", "--quiet"]), first);
    place.write("other.py", &program.replace("echo one >>calls; echo one", "echo three >>calls"));
    let diverged = place.run(&["code", "run", "other.py", "--replay", "w", "--quiet"]);
    assert!(diverged.contains("diverged") && diverged.contains("echo three"), "{diverged}");
    place.write("result.py", &program.replace("two['exit']", "'other'"));
    let differs = place.run(&["code", "run", "result.py", "--replay", "w", "--quiet"]);
    assert!(differs.contains("result: recorded"), "{differs}");
    assert_eq!(place.calls(), calls);
}
