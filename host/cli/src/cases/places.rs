//! The places of a case file that messages name.

use opcell_yaml::{Node, NodeKind};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The text of a case file, in which a place is looked for only once there is something to report about it.
#[derive(Debug, Clone, Default)]
pub struct Places {
    path: PathBuf,
    text: Arc<str>,
}

impl Places {
    /// The places of a file with this text.
    pub fn new(path: &Path, text: &str) -> Self {
        Self { path: path.strip_prefix(".").unwrap_or(path).to_owned(), text: text.into() }
    }

    /// The place of a key, or of an item of a list, as the beginning of a message: `cases/greets.yaml:3: `. Of a path
    /// that leads nowhere, it is the place of the nearest part; empty for a case that no file has.
    pub fn at(&self, path: &[&str]) -> String {
        if self.path.as_os_str().is_empty() {
            return String::new();
        }
        let line = opcell_yaml::parse(&self.text).ok().map_or(1, |root| self.line(&root, path));
        format!("{}:{line}: ", self.path.display())
    }

    fn line(&self, root: &Node, path: &[&str]) -> usize {
        let (mut node, mut offset) = (root, root.span.start);
        for part in path {
            let next = match &node.kind {
                NodeKind::Mapping(_) => node.entry(part).map(|entry| (&entry.value, entry.key_span.start)),
                NodeKind::Sequence(items) => {
                    part.parse().ok().and_then(|at: usize| items.get(at)).map(|item| (item, item.span.start))
                }
                NodeKind::Scalar(_) => None,
            };
            let Some((value, start)) = next else { break };
            (node, offset) = (value, start);
        }
        self.text.get(..offset).unwrap_or_default().matches('\n').count() + 1
    }
}

/// The path that a message about arguments names: ``at `/list/0`: `` and ``unknown key `x` ``, below `arguments`.
pub fn of_arguments(message: &str) -> Vec<String> {
    let mut path = vec!["arguments".to_owned()];
    let quoted = |start: &str| Some(message.split_once(start)?.1.split_once('`')?.0);
    let parts = quoted("at `/").into_iter().flat_map(|pointer| pointer.split('/'));
    path.extend(parts.map(|part| part.replace("~1", "/").replace("~0", "~")));
    path.extend(quoted("unknown key `").map(str::to_owned));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_line_of_the_key_or_of_the_nearest_part() {
        let text = "# first\noperation: a/b\narguments:\n  list: [1,\n    2]\nfiles:\n  docs: {}\ntools:\n- name: t\n- name: u\n";
        let places = Places::new(Path::new("./cases/a.yaml"), text);
        for (path, line) in [
            (&["operation"][..], 2),
            (&["arguments", "list", "1"], 5),
            (&["arguments", "none", "deep"], 3),
            (&["files", "docs"], 7),
            (&["tools", "1", "name"], 10),
            (&["none"], 2),
        ] {
            assert_eq!(places.at(path), format!("cases/a.yaml:{line}: "), "{path:?}");
        }
        assert_eq!(Places::default().at(&["operation"]), "");
        assert!(Places::new(Path::new("a.yaml"), "a: [").at(&["a"]).starts_with("a.yaml:1: "));
    }

    #[test]
    fn a_message_about_arguments_names_its_path() {
        assert_eq!(of_arguments("unknown key `nme`; did you mean `name`?"), ["arguments", "nme"]);
        assert_eq!(of_arguments("at `/a~1b/0`: unknown key `x`"), ["arguments", "a/b", "0", "x"]);
        assert_eq!(of_arguments("\"name\" is a required property"), ["arguments"]);
    }
}
