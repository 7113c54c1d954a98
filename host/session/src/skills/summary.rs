//! Many findings in one line, for commands that are about something else.

use super::SkillFinding;
use indexmap::IndexMap;
use opcell_ir::diagnostic::Severity;
use std::path::Path;

/// Kinds of findings that are told apart.
const KINDS: usize = 3;

/// Skills of which the first finding is told in full.
const TOLD: usize = 1;

pub(super) fn of_folder(folder: &Path, findings: &[SkillFinding]) -> Option<String> {
    let here: Vec<&SkillFinding> = findings.iter().filter(|finding| finding.path.starts_with(folder)).collect();
    if let [only] = here.as_slice() {
        return Some(format!("{}: {}", only.path.display(), only.message));
    }
    let lost: Vec<&&SkillFinding> = here.iter().filter(|finding| finding.severity == Severity::Error).collect();
    let mut kinds: IndexMap<&str, usize> = IndexMap::new();
    for finding in here.iter().filter(|finding| finding.severity != Severity::Error) {
        *kinds.entry(kind(finding)).or_default() += 1;
    }
    kinds.sort_by(|_, one, _, other| other.cmp(one));
    let mut parts: Vec<String> = Vec::new();
    for finding in lost.iter().take(TOLD) {
        parts.push(format!("{}: {}", finding.path.display(), finding.message));
    }
    if lost.len() > TOLD {
        parts.push(format!("{} more skills are not loaded", lost.len() - TOLD));
    }
    parts.extend(kinds.iter().take(KINDS).map(|(kind, count)| format!("{kind} ({count})")));
    let others: usize = kinds.values().skip(KINDS).sum();
    if others > 0 {
        parts.push(format!("others ({others})"));
    }
    let count = here.len();
    (count > 0).then(|| format!("{count} findings about the skills of {}: {}", folder.display(), parts.join("; ")))
}

/// Returns the words that findings of a kind have in common.
fn kind(finding: &SkillFinding) -> &str {
    match finding.code {
        "skill-front-matter" if finding.message.starts_with("unknown") => &finding.message,
        "skill-front-matter" => "front matter to mend",
        "skill-name" => "names that bend the format",
        "skill-description" => "descriptions that are too long",
        "skill-inside-a-skill" => "skills inside of skills",
        "skill-file-name" => "files to rename to SKILL.md",
        "skills-link" => "links out of the folder",
        "collision" => "names that are taken",
        _ => &finding.message,
    }
}
