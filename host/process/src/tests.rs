#![allow(clippy::unwrap_used, reason = "a failed test")]

use super::{end, watched};
use std::{path::Path, process::Stdio, thread, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// Leaves a process behind in a session of its own, prints its ID, and continues with what follows.
fn leaving(then: &str) -> Command {
    let script = format!("setsid sleep 300 >/dev/null & echo $!; {then}");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped());
    watched(&mut command);
    command
}

async fn left_by(child: &mut Child) -> u32 {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next_line().await.unwrap().unwrap().parse().unwrap()
}

fn is_alive(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it() {
    let mut child = leaving("exit 7").spawn().unwrap();
    let left = left_by(&mut child).await;
    assert_eq!(child.wait().await.unwrap().code(), Some(7));
    assert!(!is_alive(left));
}

#[tokio::test]
async fn stopping_a_program_ends_what_it_started() {
    let mut child = leaving("sleep 300").spawn().unwrap();
    let left = left_by(&mut child).await;
    assert!(is_alive(left));
    end(&child);
    child.wait().await.unwrap();
    assert!(!is_alive(left));
}

#[tokio::test]
async fn a_program_lives_longer_than_the_thread_that_started_it() {
    let runtime = tokio::runtime::Handle::current();
    let started = thread::spawn(move || {
        let _entered = runtime.enter();
        leaving("sleep 300").spawn().unwrap()
    });
    let mut child = started.join().unwrap();
    let left = left_by(&mut child).await;
    // The kernel has told the watching process of the thread's end; it needs a moment to act upon it.
    let ended = tokio::time::timeout(Duration::from_millis(300), child.wait()).await;
    assert!(ended.is_err() && is_alive(left), "{ended:?}");
    end(&child);
    child.wait().await.unwrap();
    assert!(!is_alive(left));
}

#[test]
fn the_status_of_the_program_is_the_status_of_the_child() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let signal = runtime.block_on(async {
        let mut command = Command::new("sh");
        command.args(["-c", "kill -9 $$"]);
        watched(&mut command);
        command.spawn().unwrap().wait().await.unwrap()
    });
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&signal), Some(9));
}
