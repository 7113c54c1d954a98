//! Tenants of one server, apart from each other.

use super::{
    ASK, GREET, keeper, project,
    server::{PATIENCE, Server, opcell},
    token,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Declares a tenant with a project of its own, which greets in its own way.
pub fn tenant(folder: &Path, name: &str, share: &str) {
    let own = folder.join(name);
    fs::create_dir(&own).unwrap();
    fs::write(own.join("opcell.toml"), "workflows = [\".\"]\n").unwrap();
    fs::write(
        own.join("greet.edn"),
        GREET.replace("{:from :workflow-input :path [:name]}", &format!("{{:value \"{name}\"}}")),
    )
    .unwrap();
    let mut project = fs::read_to_string(folder.join("opcell.toml")).unwrap();
    project += &format!("\n[tenants.{name}]\nproject = \"{name}/opcell.toml\"\n{share}");
    fs::write(folder.join("opcell.toml"), project).unwrap();
}

#[test]
fn tenants_have_workflows_runs_and_a_share_of_their_own() {
    let folder = project();
    tenant(folder.path(), "acme", "requests-per-second = 2\ncells = 2\nmodel-rounds = 1\n");
    tenant(folder.path(), "zeta", "");
    let unknown = opcell(folder.path()).args(["token", "new", "x", "--tenant", "acmee"]).output().unwrap();
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("did you mean `acme`?"), "{unknown:?}");
    let own = |tenant: &str| {
        let scopes = ["--scope", "read", "--scope", "run", "--tenant", tenant];
        format!("Bearer {}", token(folder.path(), &[&["new", tenant], &scopes[..]].concat()))
    };
    let (acme, zeta) = (own("acme"), own("zeta"));
    let server = Server::start(folder.path());
    let start = |tenant: &str, token: &str, workflow: &str| {
        let body = json!({"workflow": workflow, "run": "r1", "wait": true});
        server.post(&format!("/v1/{tenant}/runs"), &[("Authorization", token)], &body)
    };
    let (status, run) = start("acme", &acme, "greet");
    assert_eq!((status, &run["result"]), (201, &json!("acme")), "{run}");
    // The same ID is another run of another journal.
    let (status, run) = start("zeta", &zeta, "greet");
    assert_eq!((status, &run["result"]), (201, &json!("zeta")), "{run}");
    assert_eq!(start("zeta", &zeta, "ask").0, 404, "the project's own workflows are not the tenant's");
    let seen = |token: &str, path: &str| {
        let (status, _, body) = server.send("GET", path, &[("Authorization", token)], "");
        (status, body)
    };
    let nothing = seen(&zeta, "/v1/nothing/runs/r1");
    assert_eq!(nothing.0, 404);
    for path in ["/runs/r1", "/runs/none", "/runs/r1/export", "/runs/none/export", "/triggers"] {
        for tenant in ["acme", "default"] {
            assert_eq!(seen(&zeta, &format!("/v1/{tenant}{path}")), nothing, "{tenant}{path}");
        }
    }
    // The page's visitor has logged in with the token.
    let secret = zeta.strip_prefix("Bearer ").unwrap();
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let (_, entered, _) = server.send("POST", "/login", &form, &format!("token={secret}"));
    let cookie = entered
        .lines()
        .find_map(|line| line.to_ascii_lowercase().starts_with("set-cookie: ").then(|| line.split_at(12).1));
    let cookie = cookie.unwrap().split(';').next().unwrap().to_owned();
    let visited = |path: &str| {
        let (status, _, body) = server.send("GET", path, &[("Cookie", &cookie)], "");
        (status, body)
    };
    assert_eq!(visited("/t/zeta/triggers").0, 200);
    let nothing = visited("/t/nothing/triggers");
    assert_eq!(nothing.0, 404);
    for path in ["/t/acme/triggers", "/t/default/triggers", "/t/acme/runs/r1/export", "/t/acme/runs/none/export"] {
        assert_eq!(visited(path), nothing, "{path}");
    }
    // A flood of one uses nothing of the other's share.
    let floods: Vec<u16> = (0..40).map(|_| seen(&acme, "/v1/acme/runs").0).collect();
    assert!(floods.contains(&429), "{floods:?}");
    assert!((0..40).all(|_| seen(&zeta, "/v1/zeta/runs").0 == 200));
}

/// GiB of address space that a server reserves.
fn reserved(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 20
}

#[test]
fn tenants_share_the_pools_of_cells_and_see_their_own_part() {
    let folder = project();
    let plugin = |folder: &Path| {
        fs::write(folder.join("test.wasm"), keeper()).unwrap();
        let project = fs::read_to_string(folder.join("opcell.toml")).unwrap();
        fs::write(folder.join("opcell.toml"), project + "\n[plugins.test]\npath = \"test.wasm\"\n").unwrap();
    };
    plugin(folder.path());
    let alone = reserved(&Server::start_with(folder.path(), &["--cells", "8"]));
    tenant(folder.path(), "acme", "cells = 2\n");
    tenant(folder.path(), "zeta", "");
    for name in ["acme", "zeta"] {
        plugin(&folder.path().join(name));
    }
    let server = Server::start_with(folder.path(), &["--cells", "8"]);
    let together = reserved(&server);
    assert!(together < alone + alone / 2, "{alone} GiB for one project, {together} GiB for three");
    let (_, _, metrics) = server.send("GET", "/metrics", &[], "");
    let cells = |tenant: &str| {
        let of = format!("opcell_pool_cells{{tenant=\"{tenant}\",pool=");
        metrics.lines().filter_map(|line| Some(line.strip_prefix(&of)?.to_owned())).collect::<Vec<_>>()
    };
    for (tenant, most) in [("default", 4), ("acme", 2), ("zeta", 4)] {
        assert_eq!(cells(tenant), [format!("\"shared\"}} {most}")], "{metrics}");
    }
    for tenant in ["default", "acme", "zeta"] {
        let (status, operations) = server.get(&format!("/v1/{tenant}/operations"));
        assert_eq!((status, operations["operations"].as_array().unwrap().is_empty()), (200, false), "{operations}");
    }
}

#[test]
fn an_answer_of_another_tenant_answers_nothing() {
    let folder = project();
    for name in ["acme", "zeta"] {
        tenant(folder.path(), name, "");
        let asks = ASK.replace("Ship it?", &format!("Ship {name}?"));
        fs::write(folder.path().join(name).join("ask.edn"), asks).unwrap();
    }
    let own = |tenant: &str| {
        let scopes = ["--scope", "read", "--scope", "run", "--scope", "approve", "--tenant", tenant];
        format!("Bearer {}", token(folder.path(), &[&["new", tenant], &scopes[..]].concat()))
    };
    let (acme, zeta) = (own("acme"), own("zeta"));
    let server = Server::start(folder.path());
    let asked = |tenant: &str, token: &str| {
        let began = Instant::now();
        loop {
            let (_, _, run) = server.send("GET", &format!("/v1/{tenant}/runs/r1"), &[("Authorization", token)], "");
            let question = serde_json::from_str::<Value>(&run).unwrap()["questions"][0]["signal"].clone();
            if question.is_object() {
                return question;
            }
            assert!(began.elapsed() < PATIENCE, "{run}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    for (tenant, token) in [("acme", &acme), ("zeta", &zeta)] {
        let body = json!({"workflow": "ask", "run": "r1"});
        assert_eq!(server.post(&format!("/v1/{tenant}/runs"), &[("Authorization", token)], &body).0, 201);
    }
    let question = asked("acme", &acme);
    assert_eq!(question["question"], "Ship acme?");
    // To the run of the other, and to one's own run of the same ID with the other's question.
    let answer = |tenant: &str| {
        let body = json!({"question": question["id"]});
        server.post(&format!("/v1/{tenant}/runs/r1/approve"), &[("Authorization", &zeta)], &body)
    };
    assert_eq!(answer("acme").0, 404);
    let (status, problem) = answer("zeta");
    assert_eq!((status, &problem["code"]), (409, &json!("not-asked")), "{problem}");
    assert_eq!(asked("acme", &acme)["id"], question["id"], "it still waits");
    assert_eq!(asked("zeta", &zeta)["question"], "Ship zeta?", "it still waits");
}

#[test]
fn tenants_that_are_not_apart_are_refused() {
    let folder = project();
    tenant(folder.path(), "acme", "");
    fs::write(folder.path().join("acme/opcell.toml"), "journal = \"../runs.db\"\n").unwrap();
    let serve = || {
        let refused = opcell(folder.path()).args(["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        String::from_utf8(refused.stderr).unwrap()
    };
    // A journal outside of its folder is something that a tenant's project needs consent for.
    let said = serve();
    assert!(said.contains("consent-needed") && said.contains("acme/opcell.toml"), "{said}");
    let trusted = opcell(folder.path()).args(["--config", "acme/opcell.toml", "trust"]).output().unwrap();
    assert!(trusted.status.success(), "{trusted:?}");
    let said = serve();
    assert!(said.contains("the tenants `default` and `acme` have one journal"), "{said}");
    fs::write(folder.path().join("acme/opcell.toml"), "[tenants.inner]\nproject = \"opcell.toml\"\n").unwrap();
    let said = serve();
    assert!(said.contains("declares tenants of its own"), "{said}");
}
