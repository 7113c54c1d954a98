//! Networks of their own for workers, where the machine allows network namespaces: the link between a worker and the
//! journal's server can lose everything, or what goes in one direction only, as a switch does that fails. No address
//! outside of the namespaces that are made here is used.
//!
//! The campaign itself runs in a namespace without any way out. Each worker has another one, with two links to the
//! campaign's: one leads to the journal, and can fail; over the other its cells report what they do.

use anyhow::{Context as _, Result, bail};
use std::{
    ffi::OsStr,
    fs,
    net::Ipv4Addr,
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Says to a campaign that it is in a namespace of its own.
const INSIDE: &str = "OPCELL_FLEET_NETWORK";

/// The address of the recorder, for workers in namespaces of their own.
const RECORDER: Ipv4Addr = Ipv4Addr::new(10, 213, 255, 1);

/// The time that a namespace may take to be there.
const PATIENCE: Duration = Duration::from_secs(10);

/// The direction in which the link between a worker and the journal loses packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Everything.
    Both,
    /// The packets that the worker sends.
    There,
    /// The packets that answer the worker: what it asks for happens.
    Back,
}

/// `true` if campaigns of this process may make networks for their workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Networks(bool);

impl Networks {
    /// None are made.
    pub const NONE: Self = Self(false);

    /// Returns the address at which the recorder listens.
    pub fn recorder(self) -> Ipv4Addr {
        if self.0 { RECORDER } else { Ipv4Addr::LOCALHOST }
    }

    /// Returns `true` if links can fail.
    pub fn are_there(self) -> bool {
        self.0
    }

    /// The network of a worker.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn of_worker(self, number: usize) -> Result<Option<Link>> {
        self.0.then(|| Link::make(u8::try_from(number)?)).transpose()
    }
}

/// The answer to a request for a namespace.
pub enum Entered {
    /// This process is in one, or there are none, and a line on stderr says why.
    Here(Networks),
    /// Another process did everything, in one.
    Elsewhere(ExitCode),
}

/// Runs this program again in a network namespace of its own, unless it is in one.
///
/// # Errors
/// When the namespace is there and cannot be used.
pub fn enter() -> Result<Entered> {
    if std::env::var_os(INSIDE).is_some() {
        ip(["link", "set", "lo", "up"])?;
        ip(["address", "add", &format!("{RECORDER}/32"), "dev", "lo"])?;
        return Ok(Entered::Here(Networks(true)));
    }
    let tried = Command::new("unshare")
        .args(["--net", "ip", "link", "add", "one", "type", "veth", "peer", "name", "other"])
        .output();
    let why = match tried {
        Ok(tried) if tried.status.success() => None,
        Ok(tried) => Some(String::from_utf8_lossy(&tried.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    };
    if let Some(why) = why {
        eprintln!("SKIPPED: no network namespaces can be made here ({why}); no link of a worker fails by itself");
        return Ok(Entered::Here(Networks::NONE));
    }
    let mut again = Command::new("unshare");
    again.arg("--net").arg(std::env::current_exe()?).args(std::env::args_os().skip(1)).env(INSIDE, "1");
    let status = again.status().context("unshare")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2);
    Ok(Entered::Elsewhere(ExitCode::from(code)))
}

/// The network of one worker. It goes when this is dropped, or this process ends.
#[derive(Debug)]
pub struct Link {
    number: u8,
    /// Keeps the namespace: it ends when its standard input is closed.
    holder: Child,
}

impl Link {
    fn make(number: u8) -> Result<Self> {
        let own = fs::read_link("/proc/self/ns/net")?;
        let mut holder = Command::new("unshare");
        holder.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let link = Self { number, holder: holder.spawn().context("unshare")? };
        let began = Instant::now();
        while fs::read_link(link.namespace()).is_ok_and(|namespace| namespace == own) {
            if began.elapsed() > PATIENCE {
                bail!("no network namespace for worker {number}");
            }
            thread::sleep(Duration::from_millis(10));
        }
        let holder = link.holder.id().to_string();
        link.inside(["link", "set", "lo", "up"])?;
        for (device, peer, end) in [(link.device(), "journal", link.end(0)), (link.world(), "world", link.end(4))] {
            ip(["link", "add", &device, "type", "veth", "peer", "name", peer, "netns", &holder])?;
            ip(["address", "add", &format!("{}/30", end.0), "dev", &device])?;
            ip(["link", "set", &device, "up"])?;
            link.inside(["address", "add", &format!("{}/30", end.1), "dev", peer])?;
            link.inside(["link", "set", peer, "up"])?;
        }
        link.inside(["route", "add", &RECORDER.to_string(), "via", &link.end(4).0.to_string()])?;
        Ok(link)
    }

    /// Makes another one in its place. The connections of the old one go with it, and no one hears of their end.
    pub fn replace(self) -> Result<Self> {
        let number = self.number;
        for device in [self.device(), self.world()] {
            ip(["link", "delete", &device])?;
        }
        drop(self);
        Self::make(number)
    }

    /// Returns the address at which the worker finds the journal.
    pub fn gateway(&self) -> Ipv4Addr {
        self.end(0).0
    }

    /// The command, in the worker's network; the process is the command's own.
    pub fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespace())).arg(program);
        command
    }

    /// Loses what it says from now on.
    pub fn fail(&self, loss: Loss) -> Result<()> {
        let (here, there) = self.end(0);
        // A neighbour at an address of no one: what is sent to it arrives nowhere.
        let lost = |address: Ipv4Addr, device: &str| {
            ["neighbour", "replace", &address.to_string(), "lladdr", "02:00:00:00:00:99", "dev", device]
                .map(str::to_owned)
        };
        match loss {
            Loss::Both => ip(["link", "set", &self.device(), "down"]),
            Loss::Back => ip(lost(there, &self.device())),
            Loss::There => self.inside(lost(here, "journal")),
        }
    }

    /// Carries everything again.
    pub fn heal(&self, loss: Loss) -> Result<()> {
        let (here, there) = self.end(0);
        match loss {
            Loss::Both => ip(["link", "set", &self.device(), "up"]),
            Loss::Back => ip(["neighbour", "delete", &there.to_string(), "dev", &self.device()]),
            Loss::There => self.inside(["neighbour", "delete", &here.to_string(), "dev", "journal"]),
        }
    }

    fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// The campaign's end of the link to the journal.
    fn device(&self) -> String {
        format!("journal{}", self.number)
    }

    /// The campaign's end of the link to the recorder.
    fn world(&self) -> String {
        format!("world{}", self.number)
    }

    /// The two ends of a link, in a network of four addresses.
    fn end(&self, from: u8) -> (Ipv4Addr, Ipv4Addr) {
        let at = |last: u8| Ipv4Addr::new(10, 213, self.number, from + last);
        (at(1), at(2))
    }

    fn inside<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<()> {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespace())).arg("ip").args(arguments);
        done(command)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn ip<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(arguments);
    done(command)
}

fn done(mut command: Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
