//! A registry that lies to `plugin update`: whatever it serves under the tag, the project keeps the version that was
//! accepted until a command that names the plugin accepts another one, and some versions not even then.

use super::Person;
use opcell_registry::{
    artifact::{self, Descriptor, Index, Manifest, digest},
    signature::{Digests, SecretKey},
};
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// The version that a registry serves under its only tag.
#[derive(Clone)]
struct Served {
    component: Vec<u8>,
    signature: Option<Vec<u8>>,
}

impl Served {
    /// A plugin of this name and version, with more in its manifest, signed by `key`, if any.
    fn new(name: &str, version: &str, more: &str, key: Option<&SecretKey>) -> Self {
        Self::of(name, version, more, "/** Answers. */\nexport function answer() { return 42; }\n", key)
    }

    fn of(name: &str, version: &str, more: &str, source: &str, key: Option<&SecretKey>) -> Self {
        let manifest = format!("[plugin]\nname = \"{name}\"\nversion = \"{version}\"\n{more}");
        let component = opcell::source::component("notes.js", source, "notes", &manifest).unwrap();
        let signature = key.map(|key| key.sign(&Digests::of(&component)).to_json().into_bytes());
        Self { component, signature }
    }

    fn answer(&self, path: &str) -> Option<Vec<u8>> {
        let manifest = Manifest::of_component(b"{}", &self.component).to_bytes();
        let signature = self.signature.as_deref();
        let about = signature.map(|signature| {
            Manifest::about(Descriptor::of(artifact::MANIFEST, &manifest), artifact::SIGNATURE, signature).to_bytes()
        });
        match path {
            "/v2/" => Some(b"{}".to_vec()),
            path if path.ends_with("/manifests/1") || path.ends_with(&format!("/manifests/{}", digest(&manifest))) => {
                Some(manifest)
            }
            path if path.contains("/referrers/") => {
                let manifests = about.iter().map(|about| {
                    let mut referrer = Descriptor::of(artifact::MANIFEST, about);
                    referrer.artifact_type = Some(artifact::SIGNATURE.to_owned());
                    referrer
                });
                let manifests = manifests.collect();
                let list = Index { schema_version: 2, media_type: artifact::INDEX.to_owned(), manifests };
                Some(serde_json::to_vec(&list).unwrap())
            }
            path => {
                let blobs = [about.as_deref(), signature, Some(&self.component), Some(b"{}")];
                blobs.into_iter().flatten().find(|blob| path.ends_with(&digest(blob))).map(<[u8]>::to_vec)
            }
        }
    }
}

/// A registry of one plugin under one tag, which serves whatever it is given.
struct Registry {
    reference: String,
    served: Arc<Mutex<Served>>,
}

impl Registry {
    fn new(served: Served) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let reference = format!("oci://{}/notes:1", listener.local_addr().unwrap());
        let served = Arc::new(Mutex::new(served));
        let shelf = served.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = shelf.lock().unwrap().clone();
                thread::spawn(move || answer(stream, &served));
            }
        });
        Self { reference, served }
    }

    fn serve(&self, served: &Served) {
        *self.served.lock().unwrap() = served.clone();
    }
}

fn answer(mut stream: TcpStream, served: &Served) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let found = served.answer(request.split(' ').nth(1).unwrap_or_default());
    let status = if found.is_some() { "200 OK" } else { "404 Not Found" };
    let body = found.unwrap_or_default();
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len())?;
    stream.write_all(&body)
}

const INVOKE: [&str; 4] = ["op", "invoke", "notes/answer", "--quiet"];

/// An operator who has accepted version 0.2.0, signed by `key`.
fn accepted(key: &SecretKey, options: &[&str]) -> (Registry, Person) {
    let registry = Registry::new(Served::new("notes", "0.2.0", "", Some(key)));
    let operator = Person::new();
    operator.run(&[&["plugin", "add", &registry.reference], options].concat()).ok();
    assert_eq!(operator.run(&INVOKE).ok().trim(), "42");
    (registry, operator)
}

#[test]
fn what_a_registry_serves_instead_is_accepted_only_by_name() {
    let key = SecretKey::generate().unwrap();
    let (registry, operator) = accepted(&key, &[]);
    let tools = "[[capabilities.tools]]\nname = \"http.fetch\"\nreason = \"asks\"\n";
    let files = "[[capabilities.files]]\nname = \"notes\"\nreason = \"keeps\"\naccess = \"read-write\"\n";
    let other = "/** Answers. */\nexport function answer() { return 43; }\n";
    let lock = fs::read(operator.path("opcell.lock")).unwrap();
    for (served, words) in [
        (Served::new("notes", "0.1.0", "", Some(&key)), "the new version is older than the one in opcell.lock"),
        (Served::new("notes", "0.2.0-rc.1", "", Some(&key)), "the new version is older"),
        (
            Served::of("notes", "0.2.0", "", other, Some(&key)),
            "not newer than the one in opcell.lock: 0.2.0, after 0.2.0",
        ),
        (Served::of("notes", "0.2.0+b", "", other, Some(&key)), "not newer"),
        (Served::new("notes", "0.3.0", tools, Some(&key)), "asks for more than opcell.lock holds: tool http.fetch"),
        (Served::new("notes", "0.3.0", files, Some(&key)), "asks for more than opcell.lock holds"),
        (Served::new("other", "0.3.0", "", Some(&key)), "another plugin by its manifest: other, not notes"),
    ] {
        registry.serve(&served);
        operator.run(&["plugin", "update"]).refused(&["plugin `notes`", words, "opcell plugin update notes"]);
        assert_eq!(fs::read(operator.path("opcell.lock")).unwrap(), lock, "{words}");
        assert_eq!(operator.run(&INVOKE).ok().trim(), "42", "{words}");
    }
    // By its name, it is.
    registry.serve(&Served::of("notes", "0.2.0", "", other, Some(&key)));
    operator.run(&["plugin", "update", "notes"]).ok();
    assert_eq!(operator.run(&INVOKE).ok().trim(), "43");
    // And a version that is newer, from the same publisher, needs no more than a look at what it lists.
    registry.serve(&Served::new("notes", "0.3.0", "", Some(&key)));
    operator.run(&["plugin", "update"]).ok();
    assert_eq!(operator.run(&INVOKE).ok().trim(), "42");
}

#[test]
fn what_its_publisher_did_not_sign_is_not_accepted_by_name_either() {
    let (key, other) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    let (registry, operator) = accepted(&key, &[]);
    let lock = fs::read(operator.path("opcell.lock")).unwrap();
    let mut foreign = Served::new("notes", "0.3.0", "", None);
    foreign.signature = Served::new("notes", "0.2.0", "", Some(&key)).signature;
    let mut noise = foreign.clone();
    noise.signature = Some(b"{}".to_vec());
    for (served, words) in [
        (Served::new("notes", "0.3.0", "", None), "has no signature; the version before was signed by ed25519:"),
        (Served::new("notes", "0.3.0", "", Some(&other)), "opcell.lock holds the publisher ed25519:"),
        (foreign, "signature"),
        (noise, "signature"),
    ] {
        registry.serve(&served);
        operator.run(&["plugin", "update"]).refused(&[words]);
        operator.run(&["plugin", "update", "notes"]).refused(&[words]);
        assert_eq!(fs::read(operator.path("opcell.lock")).unwrap(), lock, "{words}");
        assert_eq!(operator.run(&INVOKE).ok().trim(), "42", "{words}");
    }
}

/// A plugin that may come without a signature, and came with one, does not lose it unnoticed.
#[test]
fn a_signature_that_vanished_is_noticed_where_none_is_required() {
    let (key, other) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    let (registry, operator) = accepted(&key, &["--unsigned"]);
    let lock = fs::read(operator.path("opcell.lock")).unwrap();
    registry.serve(&Served::new("notes", "0.3.0", "", Some(&other)));
    operator.run(&["plugin", "update"]).refused(&["opcell.lock holds the publisher"]);
    operator.run(&["plugin", "update", "notes"]).refused(&["opcell.lock holds the publisher"]);
    registry.serve(&Served::new("notes", "0.3.0", "", None));
    operator.run(&["plugin", "update"]).refused(&["has no signature; the one in opcell.lock was signed by ed25519:"]);
    assert_eq!(fs::read(operator.path("opcell.lock")).unwrap(), lock);
    assert_eq!(operator.run(&INVOKE).ok().trim(), "42");
    operator.run(&["plugin", "update", "notes"]).ok();
    assert_ne!(fs::read(operator.path("opcell.lock")).unwrap(), lock);
}

#[test]
fn a_plugin_that_is_fetched_again_is_the_one_of_the_lock() {
    let key = SecretKey::generate().unwrap();
    let (registry, operator) = accepted(&key, &[]);
    // The tag moves, and this machine loses its copies.
    registry.serve(&Served::new("notes", "0.3.0", "", Some(&key)));
    fs::remove_dir_all(operator.root.path().join(".local/share/opcell/plugins")).unwrap();
    let lock = fs::read(operator.path("opcell.lock")).unwrap();
    operator.run(&["plugin", "fetch"]).refused(&["notes"]);
    operator.run(&INVOKE).refused(&["it is not on this machine"]);
    assert_eq!(fs::read(operator.path("opcell.lock")).unwrap(), lock);
    registry.serve(&Served::new("notes", "0.2.0", "", Some(&key)));
    operator.run(&["plugin", "fetch"]).ok();
    assert_eq!(operator.run(&INVOKE).ok().trim(), "42");
}

#[test]
fn a_plugin_that_is_added_under_another_name_is_called_by_its_own_as_well() {
    let key = SecretKey::generate().unwrap();
    let registry = Registry::new(Served::new("other", "0.2.0", "", Some(&key)));
    let added = Person::new().run(&["plugin", "add", &registry.reference]);
    assert_eq!(added.code, Some(0), "{}", added.err);
    assert!(added.err.contains("by its manifest, its name is `other`"), "{}", added.err);
}
