//! Processes of the real `opcell worker`.

use super::{
    clock::{self, Clock},
    network::{Link, Loss, Networks},
    proxy::Proxy,
};
use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::OpenOptions,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// One worker: its process, and what lies between it and the server.
pub struct Worker {
    number: usize,
    /// Its network, if it has one of its own.
    pub link: Option<Link>,
    pub proxy: Proxy,
    clock: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

/// The parts that every worker of a campaign shares.
pub struct Ground<'a> {
    /// The project.
    pub folder: &'a Path,
    /// The command.
    pub opcell: &'a Path,
    /// Digest of what the project asks for.
    pub trust: &'a str,
    /// The journal's URL with `ADDRESS` where address and port go.
    pub journal: &'a str,
    pub networks: Networks,
    pub clock: Option<&'a Clock>,
    /// The server that gives turns, if it is not the journal's list.
    pub restate: Option<&'a Restate>,
}

/// A Restate server, and where the workers are for it.
pub struct Restate {
    /// Its admin API.
    pub admin: String,
    /// The URL at which it takes calls.
    pub ingress: String,
    /// The address of all workers.
    pub advertise: String,
    /// The port of each worker.
    pub ports: Vec<u16>,
}

impl Worker {
    pub async fn start(number: usize, server: u16, ground: &Ground<'_>) -> Result<Self> {
        let link = ground.networks.of_worker(number)?;
        let listen = link.as_ref().map_or(Ipv4Addr::LOCALHOST, Link::gateway);
        let proxy = Proxy::start(listen, server).await?;
        let clock = ground.folder.join(format!("clock-{number}"));
        let log = ground.folder.join(format!("worker-{number}.log"));
        let mut worker = Self { number, link, proxy, clock, log, child: None };
        worker.launch(ground)?;
        Ok(worker)
    }

    /// Starts the process, if it is not there.
    pub fn launch(&mut self, ground: &Ground<'_>) -> Result<()> {
        if let Some(child) = &mut self.child
            && child.try_wait()?.is_none()
        {
            return Ok(());
        }
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = command(ground, self.link.as_ref());
        let listen = self.link.as_ref().map_or(Ipv4Addr::LOCALHOST, Link::gateway);
        let address = format!("{listen}:{}", self.proxy.port);
        command
            .arg("worker")
            .arg("--journal")
            .arg(ground.journal.replace("ADDRESS", &address))
            .args(["--concurrency", "6", "--grace", "2"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if let Some(restate) = ground.restate {
            let port = restate.ports.get(self.number).context("a port for the worker")?;
            command.args(["--restate", &restate.admin, "--restate-ingress", &restate.ingress]);
            command.args(["--restate-advertise", &restate.advertise]);
            command.args(["--restate-listen", &format!("127.0.0.1:{port}")]);
        }
        if let Some(clock) = ground.clock {
            clock.give(&mut command, &self.clock)?;
        }
        self.child = Some(command.spawn().context("a worker")?);
        Ok(())
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.as_ref().and_then(|child| Pid::from_raw(child.id().cast_signed()));
        Ok(kill_process(id.context("the worker has no process")?, signal)?)
    }

    /// Kills the process at once, or waits for the end of one that was asked to stop.
    pub fn end(&mut self, at_once: bool) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            if at_once {
                child.kill()?;
            }
            child.wait()?;
        }
        Ok(())
    }

    /// Ends the process together with its network and its connections, and gives it another network.
    pub fn lose_machine(&mut self) -> Result<()> {
        let link = self.link.take().context("the worker has no network of its own")?;
        link.fail(Loss::Both)?;
        self.end(true)?;
        self.link = Some(link.replace()?);
        Ok(())
    }

    pub fn set_clock(&self, seconds: i64) -> Result<()> {
        clock::set(&self.clock, seconds)
    }

    /// Returns `true` if the process ended by itself.
    pub fn is_gone(&mut self) -> Result<bool> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?.is_some()),
            None => Ok(true),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.end(true);
    }
}

/// The command, in the project, with directories of its own.
fn command(ground: &Ground<'_>, link: Option<&Link>) -> Command {
    let mut command = match link {
        Some(link) => link.command(ground.opcell.as_os_str()),
        None => Command::new(ground.opcell),
    };
    command
        .current_dir(ground.folder)
        .env("HOME", ground.folder.join("home"))
        .env("OPCELL_TRUST", ground.trust)
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("OPCELL_CACHE");
    command
}
