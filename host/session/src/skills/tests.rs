use super::*;
use opcell_ir::diagnostic::Severity;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn skill(description: &str) -> String {
    format!("---\ndescription: {description}\n---\n\nThe body of {description}\n")
}

fn discover(root: &TempDir) -> SkillLibrary {
    SkillLibrary::discover(&[SkillFolder::required(root.path())])
}

fn codes(library: &SkillLibrary) -> Vec<(Severity, &'static str)> {
    library.findings().iter().map(|finding| (finding.severity, finding.code)).collect()
}

#[test]
fn skills_are_md_files_at_the_top_and_skill_md_files_below() {
    let root = TempDir::new().unwrap();
    write(root.path(), "lone.md", &skill("Lone."));
    write(root.path(), "deep/er/SKILL.md", &skill("Deep."));
    write(root.path(), "deep/notes.md", &skill("Not a skill."));
    write(root.path(), ".hidden/SKILL.md", &skill("Hidden."));
    write(root.path(), "node_modules/x/SKILL.md", &skill("A package."));
    let library = discover(&root);
    assert_eq!(library.skills().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["er", "lone"]);
    assert_eq!(codes(&library), []);
    assert_eq!(library.find("er").unwrap().location(), "skill:er/SKILL.md");
    assert_eq!(library.find("lone").unwrap().location(), "skill:lone/lone.md");
}

#[test]
fn the_front_matter_describes_and_the_body_is_read_when_asked() {
    let root = TempDir::new().unwrap();
    let head = "---\nname: brew\ndescription: >-\n  Makes\n  tea.\nlambda: leaves → tea\nlicense: MIT\nallowed-tools: read bash\n\
                advertise: FALSE\ndisable-model-invocation: true\nmetadata:\n  version: 3\n---\nBoil water.\n";
    write(root.path(), "brew/SKILL.md", head);
    let library = discover(&root);
    assert_eq!(codes(&library), []);
    let skill = library.find("brew").unwrap();
    assert_eq!((skill.description.as_str(), skill.lambda.as_deref()), ("Makes tea.", Some("leaves → tea")));
    assert_eq!(skill.allowed_tools, ["read", "bash"]);
    assert!(!skill.advertise && skill.disable_model_invocation && !skill.is_offered());
    assert_eq!(library.read("brew").unwrap(), "Boil water.\n");
    write(root.path(), "brew/SKILL.md", &head.replace("Boil", "Warm"));
    assert_eq!(library.read("brew").unwrap(), "Warm water.\n", "the body is not kept in memory");
}

#[test]
fn front_matter_that_is_not_yaml_is_read_entry_by_entry_and_said() {
    let root = TempDir::new().unwrap();
    write(
        root.path(),
        "odd/SKILL.md",
        "---\ndescription: \"Use when: never: ever\nlambda: λ(x). a: b\ntags:\n- one\n---\nBody",
    );
    let library = discover(&root);
    let skill = library.find("odd").unwrap();
    assert_eq!(skill.description, "\"Use when: never: ever");
    assert_eq!(skill.lambda.as_deref(), Some("λ(x). a: b"));
    let messages: Vec<_> = library.findings().iter().map(|finding| finding.message.as_str()).collect();
    assert!(messages.iter().any(|message| message.contains("line 2: the value of `description`")), "{messages:?}");
    assert!(messages.iter().any(|message| message.contains("unknown front matter key `tags`")), "{messages:?}");
}

#[test]
fn keys_in_another_case_are_read_and_said() {
    let root = TempDir::new().unwrap();
    write(root.path(), "s/SKILL.md", "<!-- (c) -->\n---\nName: s\nDescription: Draws charts\n...\nBody");
    let library = discover(&root);
    assert_eq!(library.find("s").unwrap().description, "Draws charts");
    let messages: Vec<_> = library.findings().iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "the front matter key `Name` is read as `name`",
            "the front matter key `Description` is read as `description`",
        ]
    );
}

#[test]
fn keys_in_another_spelling_mean_the_same() {
    let root = TempDir::new().unwrap();
    for (folder, keys) in [
        ("camel", "disableModelInvocation: true\nallowedTools: [Read]"),
        ("snake", "disable_model_invocation: true\nallowed_tools: Read"),
        ("upper", "DISABLE-MODEL-INVOCATION: true\nALLOWED_TOOLS: Read"),
    ] {
        write(root.path(), &format!("{folder}/SKILL.md"), &format!("---\ndescription: D.\n{keys}\n---\n"));
    }
    let library = discover(&root);
    assert_eq!(library.skills().count(), 3);
    assert!(library.skills().all(|skill| !skill.is_offered() && skill.allowed_tools == ["Read"]));
    assert_eq!(library.findings().len(), 6);
    assert!(library.findings().iter().all(|finding| finding.message.contains("is read as")));
}

#[test]
fn front_matter_that_begins_otherwise_is_explained() {
    let root = TempDir::new().unwrap();
    let head = "name: s\ndescription: D.\n";
    for (folder, text, says) in [
        ("a", format!("----\n{head}----\n"), "begins with `----` and not"),
        ("b", format!("———\n{head}———\n"), "begins with `———` and not"),
        ("c", "+++\ndescription = \"D.\"\n+++\n".to_owned(), "begins with `+++` and not"),
        ("d", format!("# Skill\n\n---\n{head}---\n"), "begins on line 3 and not"),
        ("e", format!("```yaml\n---\n{head}---\n```\n"), "begins on line 2 and not"),
        ("f", "# Skill\n\n---\n\nText\n".to_owned(), "there is no front matter"),
        ("g", "- a list\n".to_owned(), "there is no front matter"),
    ] {
        write(root.path(), &format!("{folder}/SKILL.md"), &text);
        let library = discover(&root);
        let found = library.findings().iter().find(|finding| finding.path.ends_with(format!("{folder}/SKILL.md")));
        assert!(found.is_some_and(|found| found.message.contains(says)), "{folder}: {found:?}");
    }
    fs::create_dir_all(root.path().join("h")).unwrap();
    fs::write(root.path().join("h/SKILL.md"), b"\xff\xfe-\0-\0-\0").unwrap();
    let library = discover(&root);
    assert!(library.findings().iter().any(|found| found.message.contains("UTF-16; save it as UTF-8")));
}

#[test]
fn a_file_of_a_name_that_downloads_make_is_reported() {
    let root = TempDir::new().unwrap();
    write(root.path(), "a/SKILL.markdown", &skill("A."));
    write(root.path(), "b/SKILL.md.txt", &skill("B."));
    let library = discover(&root);
    assert_eq!(library.findings().iter().map(|finding| finding.code).collect::<Vec<_>>(), ["skill-file-name"; 2]);
}

#[test]
fn a_name_is_what_was_written() {
    let root = TempDir::new().unwrap();
    for name in ["no", "on", "0123", "1.10"] {
        write(root.path(), &format!("{name}/SKILL.md"), &format!("--- \nname: {name}\ndescription: yes\n---\nBody"));
    }
    let library = discover(&root);
    assert_eq!(library.skills().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["0123", "1.10", "no", "on"]);
    assert!(library.skills().all(|skill| skill.description == "yes"));
    assert_eq!(codes(&library), [(Severity::Warning, "skill-name")], "a full stop in a name");
}

#[test]
fn what_lies_inside_a_skill_is_no_skill() {
    let root = TempDir::new().unwrap();
    write(root.path(), "SKILL.md", "---\nname: top\ndescription: Top.\n---\n");
    write(root.path(), "templates/a/SKILL.md", &skill("A template."));
    write(root.path(), "maker/SKILL.md", &skill("Makes skills."));
    write(root.path(), "maker/assets/new/SKILL.md", &skill("A template."));
    write(root.path(), "maker/skeleton/SKILL.md", &skill("A template too."));
    write(root.path(), "group/one/SKILL.md", &skill("One of a group."));
    let library = discover(&root);
    assert_eq!(library.skills().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["top", "one", "maker"]);
    let [finding, _name] = library.findings() else { panic!("{:?}", library.findings()) };
    assert_eq!(finding.code, "skill-inside-a-skill");
    assert!(finding.message.contains("`maker`") && finding.path.ends_with("maker/skeleton/SKILL.md"), "{finding:?}");
    assert_eq!(library.resources("maker").unwrap(), ["assets/new/SKILL.md", "skeleton/SKILL.md"]);
}

#[test]
fn files_that_were_meant_to_be_skills_are_told_from_others() {
    let root = TempDir::new().unwrap();
    write(root.path(), "low/skill.md", &skill("In lower case."));
    write(root.path(), "both/SKILL.md", &skill("Right."));
    write(root.path(), "both/Skill.md", "Notes.");
    for name in ["README.md", "readme.de.md", "CHANGELOG.md", "CONTRIBUTING.md"] {
        write(root.path(), name, "# Skills");
    }
    write(root.path(), "open/SKILL.md", "---\ndescription: Not closed.\n");
    let library = discover(&root);
    assert_eq!(library.skills().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["both"]);
    let found: Vec<_> = library.findings().iter().map(|found| (found.code, found.message.as_str())).collect();
    assert!(
        matches!(found.as_slice(), [("skill-file-name", rename), ("missing-description", open)]
        if rename.contains("rename it to `SKILL.md`") && open.contains("not closed")),
        "{found:?}"
    );
}

#[test]
fn many_findings_are_one_line() {
    let (root, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for number in 0..70 {
        write(root.path(), &format!("s{number}/SKILL.md"), "---\ndescription: D.\nversion: 1\n---\n");
    }
    write(root.path(), "Odd/SKILL.md", "---\ndescription: D: d\nversion: 1\n---\n");
    write(root.path(), "mute/SKILL.md", "---\nname: mute\n---\n");
    write(other.path(), "low/skill.md", &skill("In lower case."));
    let folders = [root.path(), other.path()].map(SkillFolder::required);
    let library = SkillLibrary::discover(&folders);
    assert_eq!(library.findings().len(), 75);
    let [here, there] = library.summary().try_into().unwrap();
    assert!(here.starts_with("74 findings about the skills of "), "{here}");
    assert!(here.contains("mute/SKILL.md: the front matter has no `description`"), "{here}");
    assert!(here.contains("unknown front matter key `version` (71)"), "{here}");
    assert!(there.contains("low/skill.md: not read as a skill: rename"), "{there}");
    assert!(SkillLibrary::discover(&[SkillFolder::required(other.path().join("low"))]).summary().is_empty());
}

#[test]
fn only_a_missing_description_keeps_a_skill_out() {
    let root = TempDir::new().unwrap();
    write(root.path(), "mute/SKILL.md", "---\nname: mute\n---\nBody");
    write(root.path(), "bare/SKILL.md", "No front matter at all.");
    write(root.path(), "Loud--Name/SKILL.md", &skill(&"x".repeat(1025)));
    write(root.path(), "folder/SKILL.md", "---\nname: other\ndescription: Named otherwise.\ndescripton: typo\n---\n");
    let library = discover(&root);
    assert_eq!(library.skills().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["Loud--Name", "other"]);
    assert_eq!(
        codes(&library),
        [
            (Severity::Warning, "skill-name"),
            (Severity::Warning, "skill-description"),
            (Severity::Error, "missing-description"),
            (Severity::Warning, "skill-front-matter"),
            (Severity::Warning, "skill-name"),
            (Severity::Error, "missing-description"),
        ]
    );
    assert!(library.findings().iter().any(|finding| finding.message.contains("did you mean `description`")));
}

#[test]
fn the_first_folder_wins_and_the_shadowed_skill_is_reported() {
    let (project, home) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    write(project.path(), "tidy/SKILL.md", &skill("Project."));
    write(home.path(), "tidy/SKILL.md", &skill("Home."));
    write(home.path(), "a/tidy/SKILL.md", &skill("Home too."));
    let library = SkillLibrary::discover(&[SkillFolder::required(project.path()), SkillFolder::optional(home.path())]);
    assert_eq!(library.find("tidy").unwrap().description, "Project.");
    let collisions: Vec<_> = library.findings().iter().filter(|finding| finding.code == "collision").collect();
    assert_eq!(collisions.len(), 2);
    let winner = project.path().display().to_string();
    assert!(
        collisions.iter().all(|c| c.path.starts_with(home.path()) && c.message.contains(&winner)),
        "{collisions:?}"
    );
}

#[test]
fn a_missing_folder_is_an_error_only_when_the_operator_named_it() {
    let library = SkillLibrary::discover(&[SkillFolder::optional("/nowhere/a"), SkillFolder::required("/nowhere/b")]);
    assert_eq!(codes(&library), [(Severity::Error, "skills-folder")]);
}

#[test]
fn a_missing_skill_is_an_error_that_lists_what_there_is() {
    let root = TempDir::new().unwrap();
    write(root.path(), "tidy/SKILL.md", &skill("Tidies."));
    let error = discover(&root).read("tidi").unwrap_err();
    assert_eq!(error.to_string(), "there is no skill `tidi`; available: tidy; did you mean `tidy`?");
}

#[test]
fn resources_are_files_of_the_skill_and_nothing_else() {
    let root = TempDir::new().unwrap();
    write(root.path(), "secret.txt", "outside");
    write(root.path(), "kit/SKILL.md", &skill("Kit."));
    write(root.path(), "kit/scripts/run.sh", "echo");
    write(root.path(), "kit/.cache/x", "hidden");
    std::os::unix::fs::symlink("../secret.txt", root.path().join("kit/link.txt")).unwrap();
    write(root.path(), "lone.md", &skill("Lone."));
    let library = discover(&root);
    assert_eq!(library.resources("kit").unwrap(), ["scripts/run.sh"]);
    assert_eq!(library.read_resource("kit", "scripts/run.sh").unwrap(), b"echo");
    for escape in ["../secret.txt", "link.txt", "/etc/passwd", "scripts/../../secret.txt", "", "a\0b", "scripts"] {
        let error = library.read_resource("kit", escape).unwrap_err();
        assert!(matches!(error, SkillError::File { .. }), "{escape}: {error}");
        assert!(!error.to_string().contains(&root.path().display().to_string()), "{error}");
    }
    assert!(library.read_resource("lone", "secret.txt").is_err(), "a lone file owns no folder");
    assert!(library.read_resource("lone", "lone.md").is_ok());
}

#[test]
fn what_links_lead_to_is_looked_into_once() {
    let root = TempDir::new().unwrap();
    write(root.path(), "group/one/SKILL.md", &skill("One."));
    write(root.path(), ".library/two/SKILL.md", &skill("Two."));
    for (target, link) in
        [("group/one", "again"), (".", "loop"), ("..", "group/up"), (".library", "first"), (".library/two", "second")]
    {
        std::os::unix::fs::symlink(target, root.path().join(link)).unwrap();
    }
    let library = discover(&root);
    assert_eq!(library.skills().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["two", "one"]);
    assert_eq!(codes(&library), []);
    assert_eq!(library.read("two").unwrap(), "The body of Two.\n");
}

#[test]
fn a_skill_file_that_links_out_of_its_folder_is_not_read() {
    let (root, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    write(outside.path(), "SKILL.md", &skill("Stolen."));
    fs::create_dir(root.path().join("thief")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("SKILL.md"), root.path().join("thief/SKILL.md")).unwrap();
    let library = discover(&root);
    assert_eq!(library.skills().count(), 0);
    assert_eq!(codes(&library), [(Severity::Warning, "skills-link")]);
}

#[test]
fn a_skill_at_the_top_of_a_project_gives_none_of_its_secrets() {
    let root = TempDir::new().unwrap();
    let project = root.path().join(".env.d/project");
    write(&project, "SKILL.md", "---\nname: top\ndescription: Top.\n---\nBody.\n");
    write(&project, "notes.txt", "notes");
    write(&project, ".env", "KEY=1");
    write(&project, ".git/config", "[remote]");
    write(&project, "tls/server.pem", "key");
    std::os::unix::fs::symlink(".env", project.join("innocent.txt")).unwrap();
    let library = SkillLibrary::discover(&[SkillFolder::required(&project)]);
    assert_eq!(library.read("top").unwrap(), "Body.\n");
    assert_eq!(library.read_resource("top", "notes.txt").unwrap(), b"notes");
    for secret in [".env", "./.env", ".git/config", "tls/server.pem", "innocent.txt"] {
        let refused = library.read_resource("top", secret).unwrap_err().to_string();
        assert!(refused.contains("holds secrets"), "{secret}: {refused}");
    }
}
