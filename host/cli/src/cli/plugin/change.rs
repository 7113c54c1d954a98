//! A plugin that is not as the lock holds it, and its differences from the accepted version.

use super::{
    Component, Failure,
    registry::{self, Expected, Fetched},
    sandbox,
};
use opcell::{
    config::{
        PluginConfig,
        lock::{Lock, Locked},
    },
    differences::{Difference, differences, may_be_newer, offer_differences},
    places::Places,
};
use opcell_registry::{signature::PublicKey, store::Pulled};
use opcell_sandbox::{
    Grants,
    grants::{Policy, Requests},
    inspect::Surface,
    manifest::{Manifest, Request},
};
use opcell_types::text::one_line;
use serde_json::{Value, json};

/// Bytes of the reason why a version does not load.
const SHOWN_FAILURE_BYTES: usize = 500;

/// A plugin that is not as the lock holds it.
pub(super) struct Change {
    pub(super) name: String,
    pub(super) now: Locked,
    /// The new version.
    pub(super) component: Component,
    /// The new version as its registry gave it, for a plugin of a registry.
    pub(super) pulled: Option<Box<Pulled>>,
    before: Option<Locked>,
    /// The name that the manifest of the accepted version has, where this machine has a copy of it.
    named_before: Option<Option<String>>,
    compared: Compared,
}

/// A reason why only a command that names the plugin accepts a change.
pub(super) enum Doubt {
    /// It requests more, as `kind name`.
    More(Vec<String>),
    /// Its version is not newer: the one so far, and its own.
    NotNewer(String, Option<String>),
    /// It has no signature, and the version so far was signed by this publisher.
    Unsigned(String),
    /// Its manifest names another plugin: the name so far, and its own.
    OtherName(Option<String>, Option<String>),
}

impl Change {
    /// Returns the change of a plugin of the project, `None` if it is as the lock holds it.
    pub(super) async fn find(
        lock: &Lock,
        plugin: &PluginConfig,
        accepted: Option<&PublicKey>,
    ) -> Result<Option<Self>, Failure> {
        let Some(origin) = &plugin.origin else {
            return Self::to(lock, plugin, Component::of(plugin)?).await;
        };
        let expected = Expected {
            name: &plugin.name,
            pinned: lock.plugin(&plugin.name).and_then(|before| before.publisher.as_deref()),
            accepted,
            unsigned: origin.unsigned,
            exports: &plugin.exports,
        };
        let Fetched { pulled, component, locked } = registry::fetch(&origin.reference, &expected).await?;
        Self::between(lock, plugin, component.with_name(&plugin.name), locked, Some(Box::new(pulled))).await
    }

    /// Returns the change of a plugin of the project to a component, `None` if the lock holds it.
    pub(super) async fn to(lock: &Lock, plugin: &PluginConfig, component: Component) -> Result<Option<Self>, Failure> {
        let now = component.locked(plugin);
        Self::between(lock, plugin, component.with_name(&plugin.name), now, None).await
    }

    async fn between(
        lock: &Lock,
        plugin: &PluginConfig,
        component: Component,
        now: Locked,
        pulled: Option<Box<Pulled>>,
    ) -> Result<Option<Self>, Failure> {
        let before = lock.plugin(&plugin.name).cloned();
        if before.as_ref().is_some_and(|before| before.accepts(&now)) {
            return Ok(None);
        }
        let name = plugin.name.clone();
        let accepted = match lock.accepted_component(&name, &Places::of_user()) {
            Some(bytes) => {
                let accepted = Component::from_bytes(&plugin.path, bytes, &plugin.exports).ok();
                accepted.map(|accepted| accepted.with_name(&name))
            }
            // The path of a plugin of a registry is that of the accepted version.
            None => plugin.origin.as_ref().and_then(|_| Component::of(plugin).ok()),
        };
        let named_before = accepted.as_ref().map(|accepted| accepted.surface.manifest.name.clone());
        let compared = match (&accepted, &before) {
            (Some(accepted), _) => Compared::new(accepted, &component).await?,
            (None, None) => Compared::to_nothing(&component).await?,
            (None, Some(before)) => Compared::to_lock(before, &component),
        };
        Ok(Some(Self { name, now, component, pulled, before, named_before, compared }))
    }

    /// Returns the reason why a known plugin of a registry is accepted only by a command that names it: what a registry
    /// that lies, or a publisher's key in other hands, would have it replaced by.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        let before = self.before.as_ref().filter(|_| self.pulled.is_some())?;
        let more = self.newly_requested();
        if !more.is_empty() {
            return Some(Doubt::More(more));
        }
        if let (Some(publisher), None) = (&before.publisher, &self.now.publisher) {
            return Some(Doubt::Unsigned(publisher.clone()));
        }
        let name = &self.component.surface.manifest.name;
        if let Some(named_before) = self.named_before.as_ref().filter(|named_before| *named_before != name) {
            return Some(Doubt::OtherName(named_before.clone(), name.clone()));
        }
        match &before.version {
            Some(version)
                if before.digest != self.now.digest && !may_be_newer(self.now.version.as_deref(), Some(version)) =>
            {
                Some(Doubt::NotNewer(version.clone(), self.now.version.clone()))
            }
            _ => None,
        }
    }

    /// Returns `true` if the new version is older than the accepted one.
    pub(super) fn is_downgrade(&self) -> bool {
        self.compared.differences.iter().any(Difference::is_downgrade)
    }

    /// Returns its requests beyond the lock, as `kind name`.
    pub(super) fn newly_requested(&self) -> Vec<String> {
        let known = self.before.as_ref().map(Locked::requests).unwrap_or_default();
        excess_requests(&self.name, self.now.requests(), &known)
    }

    fn no_longer_requested(&self) -> Vec<String> {
        let known = self.before.as_ref().map(Locked::requests).unwrap_or_default();
        excess_requests(&self.name, known, &self.now.requests())
    }

    /// Returns the change as lines; those about imports, exports and limits only for `details`.
    pub(super) fn lines(&self, details: bool) -> Vec<String> {
        let show = |locked: Option<&Locked>| match locked.map(|locked| (locked.digest.as_ref(), locked.bytes)) {
            None => "not in the lock".to_owned(),
            Some((None, _)) => "no digest".to_owned(),
            Some((Some(digest), bytes)) => {
                let bytes = bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
                format!("{}…{bytes}", digest.short())
            }
        };
        let mut lines = vec![format!("{}: {} -> {}", self.name, show(self.before.as_ref()), show(Some(&self.now)))];
        let publisher = |locked: Option<&Locked>| locked.and_then(|locked| locked.publisher.clone());
        let (old, new) = (publisher(self.before.as_ref()), publisher(Some(&self.now)));
        if old != new {
            let shown = |key: Option<String>| key.unwrap_or_else(|| "unsigned".to_owned());
            lines.push(format!("  signed by {} -> {}", shown(old), shown(new)));
        }
        lines.extend(self.compared.lines(details));
        lines
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "plugin": self.name, "before": self.before, "now": self.now, "newly_requests": self.newly_requested(),
            "no_longer_requests": self.no_longer_requested(), "older": self.is_downgrade(),
            "differences": self.compared.differences, "notes": self.compared.notes,
        })
    }
}

fn excess_requests(plugin: &str, requests: Requests, known: &Requests) -> Vec<String> {
    let policy = Policy::new(plugin.into(), requests, Grants::default());
    policy.excess_requests(known).into_iter().map(|denial| denial.capability).collect()
}

/// The differences of two versions.
pub(super) struct Compared {
    pub(super) differences: Vec<Difference>,
    /// The parts that could not be compared, a sentence each.
    pub(super) notes: Vec<String>,
}

impl Compared {
    /// Compares two versions: their manifests, their interfaces, and their operations and judges. Both are compiled, and
    /// describe themselves in cells without grants.
    pub(super) async fn new(old: &Component, new: &Component) -> Result<Self, Failure> {
        let sandbox = sandbox()?;
        let mut differences = differences(&old.surface, &new.surface);
        let mut notes = Vec::new();
        let old = old.load(&sandbox, Grants::default()).await;
        match (old, new.load(&sandbox, Grants::default()).await) {
            (Ok(old), Ok(new)) => differences.extend(offer_differences(Some(&old), &new)),
            (_, Err(failure)) => notes.push(does_not_load(&failure)),
            (Err(_), _) => notes.push("operations are not compared: the old version does not load here".to_owned()),
        }
        Ok(Self { differences, notes })
    }

    /// Compares a new plugin to nothing.
    pub(super) async fn to_nothing(new: &Component) -> Result<Self, Failure> {
        let mut differences = differences(&Surface::default(), &new.surface);
        let mut notes = Vec::new();
        match new.load(&sandbox()?, Grants::default()).await {
            Ok(new) => differences.extend(offer_differences(None, &new)),
            Err(failure) => notes.push(does_not_load(&failure)),
        }
        Ok(Self { differences, notes })
    }

    /// Compares a version with the lock alone, which has the version and the requests of the accepted one.
    fn to_lock(before: &Locked, new: &Component) -> Self {
        let mut old = new.surface.clone();
        old.manifest = as_locked(before, &new.surface.manifest);
        let note = "descriptions, reasons and operations are not compared: this machine has no copy of the accepted \
                    version";
        Self { differences: differences(&old, &new.surface), notes: vec![note.to_owned()] }
    }

    /// Returns them as lines; those about imports, exports and limits only for `details`.
    pub(super) fn lines(&self, details: bool) -> Vec<String> {
        let shown = self.differences.iter().filter(|found| details || !matches!(found, Difference::Surface { .. }));
        let lines = shown.map(|found| format!("  {}", found.to_string().trim()));
        lines.chain(self.notes.iter().map(|note| format!("  ! {note}"))).collect()
    }
}

/// The manifest of the accepted version as far as the lock has it; the rest is as in the new one.
fn as_locked(before: &Locked, new: &Manifest) -> Manifest {
    let held = |of: &[Request], name: &String, access| {
        let reason = of.iter().find(|request| request.name == *name).map(|request| request.reason.clone());
        Request { name: name.clone(), access, reason: reason.unwrap_or_default() }
    };
    let Requests { tools, skills, files, stores } = before.requests();
    let mut old = new.clone();
    old.version = before.version.clone().or(old.version);
    old.tools = tools.iter().map(|name| held(&new.tools, name, None)).collect();
    old.skills = skills.iter().map(|name| held(&new.skills, name, None)).collect();
    old.files = files.iter().map(|(name, access)| held(&new.files, name, Some(*access))).collect();
    old.stores = stores.iter().map(|name| held(&new.stores, name, None)).collect();
    old
}

/// Says that a version does not load, and why.
pub(super) fn does_not_load(failure: &Failure) -> String {
    let why = match failure {
        Failure::Input(rejected) => rejected.to_string(),
        Failure::Other(error) => error.to_string(),
    };
    format!("it does not load: {}", one_line(&why, SHOWN_FAILURE_BYTES))
}
