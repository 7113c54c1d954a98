//! A program whose code an earlier cell has left does what it does when it is compiled.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

use opcell::{Grant, Host, PluginConfig, builtin, prelude::*, tool_fn_with_schema};
use opcell_sandbox::CompileMode;
use serde_json::{Value as Json, json};

/// Programs that show what the code of a program may lose: places, texts of functions, constants of every kind.
const PROGRAMS: [&str; 9] = [
    include_str!("../../benches/programs/fifty.js"),
    "const first = () => { throw new TypeError('wrong'); };\n  const second = (n) => n === 0 ? first() : second(n - 1);\n\nsecond(3);",
    "class Point { #x = 1n; static made = 0; get x() { return this.#x; } static { Point.made = 7; } }\n\
     const text = [String((a, /* kept */ b = 2) => a + b), String(Point), `${new Point().x}`, Point.name].join('|');\n\
     return { text, made: Point.made, matched: /(?<year>\\d{4})-(?<rest>[^]*)/su.exec('in 2026-11 now').groups.year };",
    "function* count(to) { for (let at = 0; at < to; at += 1) yield at * 1.5; }\n\
     const all = []; outer: for (const one of count(9)) { for (const two of [1, 2]) { if (one > 6) break outer; all.push(one * two); } }\n\
     return { all, \"ключ ☃\": ['\u{1f600}', '\\ud83d\\ude00', -0, 1e300, 0x7fffffff, 2 ** 53], big: String(123456789012345678901234567890n) };",
    "const { a: { b = 'default' } = {}, ...rest } = { c: 3, d: 4 };\n\
     const tag = (strings, ...values) => strings.raw.join('#') + values.join('+');\n\
     try { null.x; } catch ({ stack }) { return { b, rest, tag: tag`one\\n${1}two${2}`, stack }; }",
    "async function* pages() { for (const page of [1, 2, 3]) yield await tools.echo({ page }); }\n\
     const seen = []; for await (const { page } of pages()) seen.push(page);\n\
     return [seen, await Promise.all([1, 2, 3].map((at) => tools.echo({ at }))), eval('seen.length + 1'), new Function('return 4')()];",
    "const deep = () => deep() + 1;\ntry { deep(); } catch (error) { return error.name; }",
    "try { await call('no.such', { a: 1 }); } catch ({ name, message, stack }) { return [name, message, stack]; }",
    "return ((\n",
];

async fn host() -> Host {
    let echo = tool_fn_with_schema("echo", "Answers with its arguments.", opcell::json!({"type": "object"}), {
        async |given: Value, _| Ok(given)
    });
    let code = PluginConfig::builtin(builtin::CODE).unwrap().grant(Grant::tool("echo"));
    let builder = Host::builder().tool(echo.effects(Effects::Pure)).plugin(code);
    builder.compile(CompileMode::TrustedInProcess).build().await.unwrap()
}

/// The end of a program, and the memory of its cell.
async fn run(host: &Host, source: &str) -> (String, u64) {
    let arguments = Value::from(json!({"language": "javascript", "source": source}));
    match host.invoke("code/run", arguments).await {
        Ok(output) => {
            let receipt: Json = serde_json::to_value(output.receipt().unwrap()).unwrap();
            (output.data.to_json(), receipt["peak-memory"].as_u64().unwrap())
        }
        Err(error) => (format!("{:?}", error.failure), 0),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_do_the_same_with_the_code_that_an_earlier_cell_has_left() {
    let host = host().await;
    let mut distinct = Vec::new();
    for program in PROGRAMS {
        // A comment of another length in each round is another text, and is compiled.
        let padded = |length: usize| format!("{program}\n// {}", "x".repeat(length));
        let (compiled, _) = run(&host, &padded(301)).await;
        for _ in 0..3 {
            assert_eq!(run(&host, &padded(300)).await.0, compiled, "{program}");
        }
        distinct.push(compiled);
    }
    assert!(distinct[1].contains("program.js:1:33") && distinct[1].contains("program.js:2:"), "{}", distinct[1]);
    assert!(distinct[2].contains("/* kept */") && distinct[2].contains("#x = 1n"), "{}", distinct[2]);
    assert!(distinct[6].contains("RangeError"), "{}", distinct[6]);
    assert!(distinct[7].contains("ToolDenied") && distinct[7].contains("program.js:1:"), "{}", distinct[7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiled_program_is_not_compiled_again() {
    let host = host().await;
    // What the compiler makes of it is much more than its code.
    let source: String = (0..1_200).map(|at| format!("let v{at} = [{at}, (a) => a + {at}];\n")).collect();
    let ((first, compiled), (second, kept)) = (run(&host, &source).await, run(&host, &source).await);
    assert_eq!(first, second);
    assert!(kept < compiled, "{kept} bytes of memory, and {compiled} for the first");
}
