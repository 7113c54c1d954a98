//! The skills that a pack brings along: written into it, or in files beside it.
//!
//! They become part of the execution model, so that a run keeps what it started with. What a state shows of them is its
//! own filter.

use super::pack::{Pack, SkillSource};
use crate::companions::Companions;
use indexmap::IndexMap;
use opcell_ir::ir::OwnSkill;
use opcell_yaml::front_matter;

/// The most skills that a pack brings along.
const MAX_SKILLS: usize = 200;
/// The file that a skill's folder holds (Agent Skills).
const SKILL_FILE: &str = "SKILL.md";

/// A pack's skills, by name, with the folder that each lies in; empty for one that is written into the pack.
#[derive(Debug, Clone, Default)]
pub(super) struct Skills {
    skills: IndexMap<String, (String, OwnSkill)>,
}

/// A source of skills that gives none.
pub(super) struct Unread {
    /// Position in the pack's list.
    pub index: usize,
    /// Why it cannot be used, as a sentence.
    pub problem: String,
}

impl Skills {
    /// Reads every source; those that do not resolve are reported.
    pub(super) fn read(pack: &Pack, beside: &dyn Companions) -> (Self, Vec<Unread>) {
        let mut skills = Self::default();
        let mut unread = Vec::new();
        for (index, source) in pack.skills.iter().enumerate() {
            let problem = match source {
                SkillSource::Inline { name, description, instructions } => {
                    let skill = OwnSkill {
                        description: description.clone(),
                        instructions: instructions.clone(),
                        preload: false,
                    };
                    skills.add(name.clone(), String::new(), skill)
                }
                SkillSource::Location(path) => skills.read_folder(path, false, beside),
                SkillSource::Path { path, preload } => skills.read_folder(path, *preload, beside),
            };
            unread.extend(problem.err().map(|problem| Unread { index, problem }));
        }
        (skills, unread)
    }

    fn add(&mut self, name: String, folder: String, skill: OwnSkill) -> Result<(), String> {
        if self.skills.len() >= MAX_SKILLS {
            return Err(format!("a pack has at most {MAX_SKILLS} skills"));
        }
        if self.skills.contains_key(&name) {
            return Err(format!("there are two skills called `{name}`; the first one applies"));
        }
        self.skills.insert(name, (folder, skill));
        Ok(())
    }

    /// Every `SKILL.md` in and under a folder of the pack's own.
    fn read_folder(&mut self, path: &str, preload: bool, beside: &dyn Companions) -> Result<(), String> {
        let path = normal(path);
        let is_file = path.to_ascii_lowercase().ends_with(".md");
        // A file is a skill whatever it is called: the pack names it.
        let files = if is_file { vec![path.clone()] } else { beside.files(&path, SKILL_FILE) };
        if files.is_empty() {
            return Err(format!("`{path}` has no {SKILL_FILE} in the pack's folder"));
        }
        for file in files {
            let text = beside.text(&file).ok_or_else(|| format!("`{file}` does not exist"))??;
            let parts = front_matter::split(&text);
            let head = parts.head.ok_or_else(|| format!("`{file}` has no front matter"))?;
            let front = front_matter::read(head, parts.line);
            let field = |key: &str| {
                front.text(key).map(str::to_owned).ok_or_else(|| format!("the front matter of `{file}` lacks `{key}`"))
            };
            let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
            let instructions = parts.body.trim().to_owned();
            self.add(field("name")?, folder, OwnSkill { description: field("description")?, instructions, preload })?;
        }
        Ok(())
    }

    /// Returns `true` if the pack brings none.
    pub(super) fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }

    /// Returns the skills that a state's filter leaves: all without one, none of them for `none`, else those in or
    /// under the folder that it names (a trailing `/*` or `/**` says the same), or the one of that name.
    pub(super) fn filtered(&self, filter: &str) -> IndexMap<String, OwnSkill> {
        let folder = normal(filter.trim_end_matches('*'));
        let shows = |name: &str, at: &str| {
            filter.is_empty() || name == filter || at == folder || at.starts_with(&format!("{folder}/"))
        };
        self.skills
            .iter()
            .filter(|(name, (at, _))| filter != "none" && shows(name, at))
            .map(|(name, (_, skill))| (name.clone(), skill.clone()))
            .collect()
    }
}

/// A relative path without `./` and slashes at its ends.
fn normal(path: &str) -> String {
    path.trim_start_matches("./").trim_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::Skills;
    use crate::companions::Companions;
    use crate::promptpack::pack::{Pack, SkillSource};

    /// `skills/billing/pci` and `skills/orders`.
    struct Folder;

    impl Companions for Folder {
        fn text(&self, path: &str) -> Option<Result<String, String>> {
            let name = path.strip_suffix("/SKILL.md")?.rsplit('/').next()?;
            Some(Ok(format!("---\nname: {name}\ndescription: About {name}.\n---\nDo {name}.\n")))
        }

        fn files(&self, folder: &str, name: &str) -> Vec<String> {
            ["skills/billing/pci", "skills/orders"]
                .iter()
                .map(|at| format!("{at}/{name}"))
                .filter(|file| file.starts_with(&format!("{folder}/")))
                .collect()
        }
    }

    fn names(filter: &str) -> Vec<String> {
        let inline = SkillSource::Inline {
            name: "greet".to_owned(),
            description: "Greets.".to_owned(),
            instructions: "Say hello.".to_owned(),
        };
        let pack = Pack { skills: vec![SkillSource::Location("./skills".to_owned()), inline], ..Pack::default() };
        let (skills, unread) = Skills::read(&pack, &Folder);
        assert!(unread.is_empty());
        skills.filtered(filter).keys().cloned().collect()
    }

    #[test]
    fn a_state_sees_all_skills_none_those_of_a_folder_or_the_one_it_names() {
        assert_eq!(names(""), ["pci", "orders", "greet"]);
        assert!(names("none").is_empty());
        assert_eq!(names("skills/billing"), ["pci"]);
        assert_eq!(names("./skills/*"), ["pci", "orders"]);
        assert_eq!(names("greet"), ["greet"]);
        assert!(names("skills/bill").is_empty(), "a path is not a prefix of a word");
    }

    #[test]
    fn a_file_is_a_skill_whatever_it_is_called() {
        struct One;
        impl Companions for One {
            fn text(&self, path: &str) -> Option<Result<String, String>> {
                (path == "skills/refunds.md").then(|| Ok("---\nname: refunds\ndescription: d\n---\nDo.\n".to_owned()))
            }
        }
        let pack = |path: &str| Pack { skills: vec![SkillSource::Location(path.to_owned())], ..Pack::default() };
        let (skills, unread) = Skills::read(&pack("./skills/refunds.md"), &One);
        assert!(unread.is_empty());
        assert!(skills.filtered("skills").contains_key("refunds"));
        let (_, unread) = Skills::read(&pack("skills/none.md"), &One);
        assert_eq!(unread.first().map(|unread| unread.problem.as_str()), Some("`skills/none.md` does not exist"));
    }

    #[test]
    fn a_folder_without_skills_is_told() {
        let pack = Pack { skills: vec![SkillSource::Location("../elsewhere".to_owned())], ..Pack::default() };
        assert_eq!(Skills::read(&pack, &Folder).1.len(), 1);
    }
}
