//! The standing of a run, in words that lists, pages, the API and metrics share: its status, who drives it, what it
//! waits for, and whether it will go on by itself.

use crate::{
    config::Config,
    host::Host,
    live::digest_of,
    pins::{self, Pins},
    places::Places,
    versions::AcceptedVersions,
};
use opcell_engine::{
    Engine, RunError, State, Status,
    event::{EffectId, Timestamp},
    outcome::Question,
};
use opcell_journal::RunEntry;
use opcell_types::FollowUp;
use serde::{Serialize, Serializer};
use std::{collections::HashSet, sync::Arc};

/// The versions of plugins with which a host can drive runs.
#[derive(Debug, Clone, Default)]
pub struct Here {
    /// Those that new runs begin with.
    current: Pins,
    /// Earlier ones that the project accepted.
    accepted: HashSet<(Arc<str>, Arc<str>)>,
}

impl Here {
    fn new(current: Pins, config: &Config, places: &Places) -> Self {
        let versions = config.lock.as_ref().and_then(|lock| AcceptedVersions::of(lock, places));
        let versions = versions.and_then(|versions| versions.list().ok()).unwrap_or_default();
        // Without the plugin in the project there is nothing that says what a version is granted.
        let of_project = versions.into_iter().filter(|version| config.plugins.contains_key(&version.plugin));
        let accepted =
            of_project.map(|version| (Arc::from(pins::name_of(&version.plugin)), Arc::clone(version.digest.shared())));
        Self { current, accepted: accepted.collect() }
    }

    /// Returns the digest of the version of a plugin that new runs begin with, by the name that runs pin it by.
    #[must_use]
    pub fn current(&self, name: &str) -> Option<&Arc<str>> {
        self.current.get(name)
    }

    /// Returns `true` if a run that pinned this version can be driven.
    #[must_use]
    pub fn has(&self, name: &Arc<str>, digest: &Arc<str>) -> bool {
        self.current.get(name) == Some(digest) || self.accepted.contains(&(name.clone(), digest.clone()))
    }
}

/// The versions that are loaded, and those that the host's project accepted.
pub async fn loaded(host: &Host) -> Here {
    let current = pins::all(host.catalog());
    let (config, places) = (host.parts().config.clone(), host.parts().ground.places.clone());
    let listing = tokio::task::spawn_blocking({
        let current = current.clone();
        move || Here::new(current, &config, &places)
    });
    listing.await.unwrap_or(Here { current, accepted: HashSet::new() })
}

/// The versions of a project as they lie there, none of them loaded. Blocks.
#[must_use]
pub fn lying(config: &Config) -> Here {
    let digest = |plugin| Some(Arc::from(digest_of(plugin).ok()?));
    let plugins = config.plugins.values();
    let current = plugins.filter_map(|plugin| Some((pins::name_of(&plugin.name).into(), digest(plugin)?))).collect();
    Here::new(current, config, &Places::of_user())
}

/// Seconds for which a run may be without a driver before it counts as stuck: workers look several times a second.
pub const STUCK_SECONDS: u32 = 60;

/// Characters of a digest that are shown.
const DIGEST: usize = 12;

/// The standing of a run at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Standing {
    /// One of [`RunEntry::STATUSES`].
    pub status: String,
    /// The process that drives it; absent: none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driven_by: Option<Arc<str>>,
    /// When its pause ends.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub until: Option<Timestamp>,
    /// The things that it waits for, or needs to continue: each a few words.
    pub waits_for: Vec<String>,
    /// It could go on, or has been answered, and does not by itself.
    pub is_stuck: bool,
}

/// A time as people read it.
fn as_text<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(Timestamp::to_text).serialize(serializer)
}

impl Standing {
    /// Returns the standing of a run as far as its entry in a list says, without reading it.
    #[must_use]
    pub fn of_entry(entry: &RunEntry, now: i64) -> Self {
        let until = entry.state.due.filter(|due| *due > now && !entry.state.ended).map(Timestamp);
        Self {
            status: entry.status(now).to_owned(),
            driven_by: entry.driver.clone(),
            until,
            waits_for: until.map(|until| format!("a timer until {}", until.to_text())).into_iter().collect(),
            is_stuck: false,
        }
    }

    /// Returns the standing of a run. `here`: the plugins that this host has, by name and digest; a run that pinned
    /// others needs another host.
    ///
    /// # Errors
    /// When the run cannot be read.
    pub async fn of(
        engine: &Engine,
        entry: &RunEntry,
        here: Option<&Here>,
        stuck_seconds: u32,
    ) -> Result<Self, RunError> {
        Self::of_known(engine, entry, None, here, stuck_seconds).await
    }

    /// As [`Self::of`], of a run whose state is known already.
    ///
    /// # Errors
    /// When the run cannot be read.
    pub async fn of_known(
        engine: &Engine,
        entry: &RunEntry,
        known: Option<&State>,
        here: Option<&Here>,
        stuck_seconds: u32,
    ) -> Result<Self, RunError> {
        let now = engine.ports().timer.now().0;
        let mut standing = Self::of_entry(entry, now);
        if entry.state.ended {
            return Ok(standing);
        }
        if engine.journal().is_from_elsewhere(&entry.run) {
            standing.waits_for = vec![format!("{}: it was not made here", FollowUp::AdoptRun(entry.run.to_string()))];
            standing.is_stuck = true;
            return Ok(standing);
        }
        if standing.until.is_some() || (entry.driven && standing.status != "suspended") {
            return Ok(standing);
        }
        let answered = match (entry.driven, standing.status.as_str()) {
            (false, "suspended") => engine.journal().inbox(&entry.run).await?.last().map(|message| message.at),
            _ => None,
        };
        let read;
        let state = match known {
            Some(state) => state,
            None => {
                read = engine.shown_state(&entry.run, None).await?;
                &read
            }
        };
        if standing.status == "suspended" && answered.is_none() {
            standing.waits_for = state.questions().iter().map(asked).collect();
            return Ok(standing);
        }
        // It could continue, and no process drives it.
        let since = answered.or(entry.state.due).map_or(entry.updated_at, |since| since.max(entry.updated_at));
        standing.is_stuck = since.saturating_add(i64::from(stuck_seconds) * 1_000_000) <= now;
        standing.waits_for = needs(state, here);
        let answer = if answered.is_some() { ": it was answered" } else { "" };
        if standing.waits_for.is_empty() {
            standing.waits_for.push(format!("a worker, or {}{answer}", FollowUp::ResumeRun(entry.run.to_string())));
        } else if answered.is_some() {
            standing.waits_for.push("it was answered".to_owned());
        }
        Ok(standing)
    }

    /// Returns `true` if it says the same as a state that was read at about the same time: the run may have gone on in
    /// between, and then the state says more.
    #[must_use]
    pub fn agrees_with(&self, status: Status) -> bool {
        match status {
            Status::Pending | Status::Running => {
                ["pending", "running", "waiting", "interrupted"].contains(&self.status.as_str())
            }
            other => self.status == other.as_str(),
        }
    }

    /// Returns what the run waits for as one text; empty where it waits for nothing.
    #[must_use]
    pub fn waits_for(&self) -> String {
        self.waits_for.join(", ")
    }
}

/// Returns what a run pinned and this host does not have.
fn needs(state: &State, here: Option<&Here>) -> Vec<String> {
    let Some(here) = here else { return Vec::new() };
    let short = |digest: &str| digest.chars().take(DIGEST).collect::<String>();
    let missing = state.pins().iter().filter(|(name, digest)| !here.has(name, digest));
    let missing = missing.map(|(name, digest)| match here.current(name) {
        Some(found) => format!("{name} {} (here: {})", short(digest), short(found)),
        None => format!("{name} {} (not here)", short(digest)),
    });
    missing.collect()
}

/// Returns what a question waits for, in a few words.
#[must_use]
pub fn asked(question: &Question) -> String {
    match question {
        Question::Signal { name, approval: true, .. } => format!("approval {name}"),
        Question::Signal { name, .. } => format!("signal {name}"),
        Question::Doubt { step, effect: EffectId(effect), .. } => format!("decision on step {step} (effect {effect})"),
        Question::Grant { denial, .. } => format!("grant of {}", denial.capability),
        Question::Call { tool, .. } => format!("approval of {tool}"),
        Question::Input { server, tool, .. } => format!("input for {server}/{tool}"),
    }
}
