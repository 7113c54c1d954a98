//! The files of the command line: one for each command, one for the arguments that several have, and no circle.

use super::root;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The module that has the arguments of more than one command.
const SHARED: &str = "cli::args";

/// The files of the command line by their modules, such as `cli::runs::list`: code without comments and tests.
fn modules() -> BTreeMap<String, String> {
    let source = root().join("host/cli/src");
    let (mut found, mut open) = (BTreeMap::new(), vec![source.join("cli.rs"), source.join("cli")]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = path.with_extension("").strip_prefix(&source).unwrap().display().to_string();
            found.insert(module.replace('/', "::"), product_code(&path));
        }
    }
    // Modules that only tests build are not part of the command.
    let tests: Vec<String> = found
        .iter()
        .flat_map(|(module, code)| {
            let only_tests = code.split("#[cfg(test)]\nmod ").skip(1).filter_map(|rest| rest.split_once(';'));
            only_tests.map(move |(name, _)| format!("{module}::{name}"))
        })
        .collect();
    found.retain(|module, _| !tests.iter().any(|test| module == test || module.starts_with(&format!("{test}::"))));
    assert!(found.len() > 100, "the modules of the command were found: {}", found.len());
    found
}

/// The code of a file, without lines that are comments and without the tests at its end.
fn product_code(path: &Path) -> String {
    let mut code = String::new();
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let mut below = lines[at + 1..].iter().skip_while(|line| line.starts_with('#'));
        if *line == "#[cfg(test)]" && below.next().is_some_and(|next| next.starts_with("mod ") && next.ends_with('{')) {
            break;
        }
        if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// The paths of an item `use`, whose tree is given, each with the name that it has here.
fn imports(tree: &str) -> Vec<(String, String)> {
    let Some((before, inside)) = tree.split_once('{') else {
        let (path, name) = match tree.split_once(" as ") {
            Some((path, name)) => (path.trim(), name.trim()),
            None => (tree.trim(), tree.trim().rsplit("::").next().unwrap()),
        };
        return vec![(path.to_owned(), name.to_owned())];
    };
    let inside = &inside[..inside.rfind('}').unwrap()];
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts
        .flat_map(|part| {
            let prefix = before.trim();
            match part {
                "self" => imports(prefix.trim_end_matches("::")),
                part => imports(&format!("{prefix}{part}")),
            }
        })
        .collect()
}

/// The `use` items of a module: where each name comes from. And the code without them.
fn split(code: &str) -> (BTreeMap<String, String>, String) {
    let (mut names, mut rest) = (BTreeMap::new(), String::new());
    for item in code.split_inclusive(';') {
        let at = item.rfind("\nuse ").map(|at| at + 1).or_else(|| item.rfind("pub use "));
        match at.or_else(|| item.starts_with("use ").then_some(0)) {
            Some(at) if item[at..].trim_start_matches("pub ").starts_with("use ") => {
                rest.push_str(&item[..at]);
                let tree = item[at..].trim_start_matches("pub ").trim_start_matches("use ").trim_end_matches(';');
                let one_line = tree.split_whitespace().collect::<Vec<_>>().join(" ");
                names.extend(
                    imports(&one_line.replace(" ::", "::").replace("{ ", "{"))
                        .into_iter()
                        .map(|(path, name)| (name, path)),
                );
            }
            _ => rest.push_str(item),
        }
    }
    (names, rest)
}

/// The modules with the names that each imports.
struct Map {
    modules: BTreeMap<String, (BTreeMap<String, String>, String)>,
}

impl Map {
    fn read() -> Self {
        Self { modules: modules().into_iter().map(|(module, code)| (module, split(&code))).collect() }
    }

    /// The module that defines what a path names, as `module` sees it. A name that a module only imports, such as
    /// `super::Failure`, is defined where it comes from.
    fn definer(&self, module: &str, path: &str, depth: usize) -> Option<String> {
        let mut words = path.split("::").peekable();
        let mut at: Vec<&str> = module.split("::").collect();
        match *words.peek()? {
            "crate" => {
                words.next();
                at.clear();
            }
            "self" => drop(words.next()),
            "super" => {
                while words.next_if_eq(&"super").is_some() {
                    at.pop();
                }
            }
            first => {
                let is_below = self.modules.contains_key(&format!("{module}::{first}"));
                if !is_below {
                    return None;
                }
            }
        }
        while let Some(word) = words.peek() {
            at.push(word);
            if !self.modules.contains_key(&at.join("::")) {
                at.pop();
                break;
            }
            words.next();
        }
        let found = at.join("::");
        let (names, _) = self.modules.get(&found)?;
        match words.peek().and_then(|name| names.get(*name)) {
            Some(origin) if depth < 8 && found != module => {
                // Names from other crates do not count.
                self.definer(&found, origin, depth + 1)
            }
            _ => Some(found),
        }
    }

    /// The modules that a module uses.
    fn used(&self, module: &str) -> BTreeSet<String> {
        let (names, code) = &self.modules[module];
        let mut paths: BTreeSet<String> = names.values().cloned().collect();
        let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        // `pub(in crate::cli)` says who may use an item, and uses nothing.
        let code = code.replace("pub(in crate::cli", "pub(");
        for path in code.split(|c| !is_path(c)).filter(|path| path.contains("::")) {
            paths.insert(path.trim_matches(':').to_owned());
        }
        let used = paths.iter().filter_map(|path| self.definer(module, path, 0));
        used.filter(|used| used != module).collect()
    }
}

#[test]
fn every_command_has_a_file_of_its_name_with_its_function() {
    let page = fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## opcell ")).collect();
    assert!(commands.len() > 80, "docs/commands.md names {} commands", commands.len());
    let modules = modules();
    for command in commands {
        let words: Vec<String> = command.split(' ').map(|word| word.replace('-', "_")).collect();
        let module = format!("cli::{}", words.join("::"));
        let code = modules.get(&module).unwrap_or_else(|| panic!("`opcell {command}` has no module {module}"));
        let function = format!("fn {}(", words.last().unwrap());
        assert!(code.contains(&function), "{module} has no `{function}`: `opcell {command}` is done elsewhere");
    }
}

/// The structs of arguments and the values that one may have: name, `true` for a struct, and the text of the body.
fn arguments(code: &str) -> impl Iterator<Item = (&str, bool, &str)> {
    code.split("#[derive(").skip(1).filter_map(|item| {
        let (derived, rest) = item.split_once(")]")?;
        let is_argument = derived.split(", ").any(|derive| ["Args", "ValueEnum", "Parser"].contains(&derive));
        let (head, body) = rest.split_once('{').filter(|_| is_argument)?;
        let mut words = head.split_whitespace().skip_while(|word| !["struct", "enum"].contains(word));
        let is_struct = words.next()? == "struct";
        Some((words.next()?, is_struct, body.split("\n}").next()?))
    })
}

#[test]
fn arguments_of_several_commands_are_in_one_module() {
    let map = Map::read();
    let mut defined = BTreeSet::new();
    for (module, (_, code)) in &map.modules {
        defined.extend(arguments(code).map(|(name, ..)| (module.clone(), name.to_owned())));
    }
    assert!(defined.len() > 100, "the structs of arguments were found: {}", defined.len());
    // The modules whose arguments have a field of such a type.
    let mut users: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    for (module, (names, code)) in &map.modules {
        for (_, _, body) in arguments(code).filter(|(_, is_struct, _)| *is_struct) {
            let fields = body.lines().filter(|line| line.starts_with("    ") && line.ends_with(','));
            for kind in fields.filter_map(|line| Some(line.split_once(": ")?.1)) {
                for name in kind.split(|c: char| !c.is_ascii_alphanumeric()).filter(|name| !name.is_empty()) {
                    let origin = names.get(name).and_then(|path| map.definer(module, path, 0));
                    let key = (origin.unwrap_or_else(|| module.clone()), name.to_owned());
                    if defined.contains(&key) {
                        users.entry(key).or_default().insert(module);
                    }
                }
            }
        }
    }
    let shared = |name: &str| users.get(&(SHARED.to_owned(), name.to_owned())).map_or(0, BTreeSet::len);
    assert!(shared("StoreArgs") > 3 && shared("Sender") > 3, "the fields were found: {users:?}");
    for ((module, name), users) in &users {
        assert!(
            users.len() < 2 || module == SHARED,
            "{name} of {module} is an argument of {users:?}: it belongs to {SHARED}"
        );
    }
}

#[test]
fn the_files_of_the_command_form_no_circle() {
    let map = Map::read();
    let mut uses: BTreeMap<String, BTreeSet<String>> =
        map.modules.keys().map(|module| (module.clone(), map.used(module))).collect();
    assert!(uses["cli"].contains("cli::runs") && uses["cli::runs::list"].contains("cli::failure"), "{uses:?}");
    // What uses nothing that is left is in no circle.
    loop {
        let done: BTreeSet<String> =
            uses.iter().filter(|(_, used)| used.is_empty()).map(|(name, _)| name.clone()).collect();
        if done.is_empty() {
            break;
        }
        uses.retain(|name, _| !done.contains(name));
        uses.values_mut().for_each(|used| used.retain(|name| !done.contains(name)));
    }
    assert!(uses.is_empty(), "these modules of the command are in a circle, or use one: {uses:#?}");
}
