//! Whose a project is. A file in `/tmp` or in a shared folder above may be anybody's, and a project file is obeyed.

use crate::report::Rejected;
use opcell_ir::Diagnostic;
use opcell_types::{FollowUp, files::leads_out, text::is_invisible};
use std::{fs::Metadata, os::unix::fs::MetadataExt, path::Path};

/// Refuses a project file that another user could have written: the file, its folder, and whatever links lead there
/// must be this user's, or the system's, and no link may lead out of the folder. `--config` is how a user names such a
/// file on purpose.
///
/// # Errors
/// Naming what belongs to whom.
pub fn check_owner(file: &Path) -> Result<(), Rejected> {
    let name_project = FollowUp::NameProject(shell(file).to_string());
    let on_purpose = format!("name it on purpose, {name_project}, or work in a folder of your own");
    let user = rustix::process::geteuid().as_raw();
    let real = crate::places::real(file);
    let folders = [file.parent(), real.parent()];
    for path in [Some(file), Some(&*real)].into_iter().chain(folders).flatten() {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let Ok(status) = path.symlink_metadata() else { continue };
        if !is_trusted(&status, user) {
            let message = format!(
                "{} belongs to user {}, and this is user {user}: its project file is not used",
                path.display(),
                status.uid()
            );
            return Err(Rejected::plain(Diagnostic::error("project-of-another-user", message).help(on_purpose)));
        }
    }
    if leads_out(file, file.parent().unwrap_or(Path::new(""))).is_some() {
        return Err(link_leads_out(file, &on_purpose));
    }
    Ok(())
}

/// Refuses a file that belongs neither to this user, nor to the system, nor to whom the file belongs that it is obeyed
/// with: in a folder that all may write, others can put a lock beside a project file.
///
/// # Errors
/// Naming what belongs to whom.
pub fn check_companion(file: &Path, project: &Path) -> Result<(), Rejected> {
    let user = rustix::process::geteuid().as_raw();
    let owner = project.symlink_metadata().map(|status| status.uid());
    for path in [file, &*crate::places::real(file)] {
        let Ok(status) = path.symlink_metadata() else { continue };
        if !is_trusted(&status, user) && !owner.as_ref().is_ok_and(|owner| *owner == status.uid()) {
            let message = format!("{} belongs to user {}, and is not used", path.display(), status.uid());
            let help = "remove it, or make it yours when you have read it";
            return Err(Rejected::plain(Diagnostic::error("file-of-another-user", message).help(help)));
        }
    }
    let real = crate::places::real(project);
    let outside = |project: &Path| leads_out(file, project.parent().unwrap_or(Path::new(""))).is_some();
    if outside(project) && outside(&real) {
        return Err(link_leads_out(file, "put the file itself there"));
    }
    Ok(())
}

/// A message about what a file says would show what a link leads to.
fn link_leads_out(file: &Path, help: &str) -> Rejected {
    let message = format!("{} is a link that leads out of its folder, and is not used", file.display());
    Rejected::plain(Diagnostic::error("link-leads-out", message).help(help))
}

/// Returns `true` if a folder or file is this user's, or the system's, where it is and where links lead.
#[must_use]
pub fn is_own(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let own = |path: &Path| path.symlink_metadata().is_ok_and(|status| is_trusted(&status, user));
    own(path) && own(&crate::places::real(path))
}

/// Root can change everything anyway. Root itself, however, must not run what a user left somewhere.
fn is_trusted(status: &Metadata, user: u32) -> bool {
    status.uid() == user || status.uid() == 0
}

/// A path as one word of a shell command.
#[must_use]
pub fn shell(path: &Path) -> String {
    let text = path.display().to_string();
    if text.chars().any(is_unseen) {
        let escaped: String = text.chars().map(escaped).collect();
        return format!("$'{escaped}'");
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/=:@%+-,".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Characters that a line does not show as what they are: breaks, blanks other than the usual one, and nothing at all.
fn is_unseen(c: char) -> bool {
    /// Letters and symbols that look like a blank.
    const BLANK: [char; 4] = ['\u{2800}', '\u{3164}', '\u{115f}', '\u{ffa0}'];
    c != ' ' && (c.is_control() || c.is_whitespace() || is_invisible(c) || BLANK.contains(&c))
}

/// As a shell reads it between `$'` and `'`.
fn escaped(c: char) -> String {
    match c {
        '\n' => r"\n".to_owned(),
        '\t' => r"\t".to_owned(),
        '\r' => r"\r".to_owned(),
        '\'' => r"\'".to_owned(),
        '\\' => r"\\".to_owned(),
        c if is_unseen(c) => format!("\\U{:08x}", u32::from(c)),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn a_line_break_in_a_command_is_shown_as_one() {
        assert_eq!(shell(Path::new("true # notes\ntouch x")), r"$'true # notes\ntouch x'");
        assert_eq!(shell(Path::new("a\u{2800}b\u{a0}'c")), r"$'a\U00002800b\U000000a0\'c'");
        assert_eq!(shell(Path::new("a b")), "'a b'");
    }

    fn code(checked: Result<(), Rejected>) -> Option<String> {
        checked.err().map(|rejected| rejected.diagnostics[0].code.to_owned())
    }

    #[test]
    fn a_project_file_or_lock_that_is_a_link_to_elsewhere_is_not_obeyed() {
        let base = tempfile::tempdir().unwrap();
        let checkout = base.path().join("checkout");
        fs::create_dir(&checkout).unwrap();
        fs::write(base.path().join("netrc"), "machine example.org password hunter2").unwrap();
        let (project, lock) = (checkout.join("opcell.toml"), checkout.join("opcell.lock"));
        symlink("../netrc", &project).unwrap();
        assert_eq!(code(check_owner(&project)).as_deref(), Some("link-leads-out"));
        fs::remove_file(&project).unwrap();
        fs::write(&project, "").unwrap();
        assert_eq!(code(check_owner(&project)), None);
        symlink("../netrc", &lock).unwrap();
        assert_eq!(code(check_companion(&lock, &project)).as_deref(), Some("link-leads-out"));
    }

    #[test]
    fn links_within_the_folder_and_beside_the_real_project_are_obeyed() {
        let base = tempfile::tempdir().unwrap();
        let (real, alias) = (base.path().join("real"), base.path().join("alias"));
        for folder in [&real, &alias] {
            fs::create_dir(folder).unwrap();
        }
        for file in ["opcell.toml", "opcell.lock"] {
            fs::write(real.join(file), "").unwrap();
            symlink(real.join(file), alias.join(file)).unwrap();
        }
        symlink("opcell.toml", real.join("other.toml")).unwrap();
        assert_eq!(code(check_owner(&real.join("other.toml"))), None);
        // `--config alias/opcell.toml` was named on purpose, and its lock lies beside what it leads to.
        assert_eq!(code(check_companion(&alias.join("opcell.lock"), &alias.join("opcell.toml"))), None);
    }
}
