//! tmp
use opcell::selftest::{Case, run};
use opcell_sandbox::*;
#[tokio::main]
async fn main() {
    let mut config = SandboxConfig::new(CompileMode::Child(CompileProgram{path: std::env::args().nth(1).unwrap().into(), args: vec![]}));
    config.cache=None;
    let sandbox = Sandbox::new(config).unwrap();
    let only = std::env::args().nth(2);
    for case in Case::all().unwrap() {
        if only.as_ref().is_some_and(|o| !case.name.contains(o.as_str())) { continue }
        let r = run(&sandbox, &case).await;
        println!("{:28} {} {:18} {:9.1} ms {:6} KiB {}", r.name, if r.contained {"ok "} else {"BAD"}, r.by, r.ms, r.rss_growth_kib, r.problem.unwrap_or_default());
    }
}
