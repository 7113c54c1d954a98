//! Starting the author's own tools.

use crate::AuthorError;
use std::{
    path::Path,
    process::{Command, Stdio},
};

/// The most of a tool's messages that is looked at.
const MAX_MESSAGES: usize = 256 << 10;

/// Bytes of a command in a message.
const MAX_COMMAND_BYTES: usize = 400;

/// Runs a tool whose messages go to stderr: what tools print is for people, and stdout is for results.
pub(crate) fn run(command: &mut Command) -> Result<(), AuthorError> {
    let text = command_line(command);
    let status = command.stdout(std::io::stderr()).status().map_err(AuthorError::file(text.as_str()))?;
    match status.success() {
        true => Ok(()),
        false => Err(AuthorError::ToolFailed { command: text, status: status.to_string() }),
    }
}

/// Runs a tool, and prints what `shown` makes of its messages if it fails; of one that succeeds, what it wrote to
/// stderr.
pub(crate) fn run_explained(command: &mut Command, shown: impl FnOnce(&str) -> String) -> Result<(), AuthorError> {
    let text = command_line(command);
    let output = command.stdin(Stdio::null()).output().map_err(AuthorError::file(text.as_str()))?;
    let messages = |bytes: &[u8]| {
        let start = bytes.len().saturating_sub(MAX_MESSAGES);
        String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).into_owned()
    };
    let (out, err) = (messages(&output.stdout), messages(&output.stderr));
    if output.status.success() {
        eprint!("{}", opcell_types::text::cleaned(&err));
        return Ok(());
    }
    eprintln!("{}", opcell_types::text::cleaned(&shown(&format!("{out}{err}"))).trim_end());
    Err(AuthorError::ToolFailed { command: text, status: output.status.to_string() })
}

/// The command as it can be repeated in a shell; of a long one, its beginning.
fn command_line(command: &Command) -> String {
    let mut line = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut arguments = command.get_args();
    while let Some(argument) = arguments.next() {
        let argument = quoted(&argument.to_string_lossy());
        if line.len() + argument.len() > MAX_COMMAND_BYTES {
            let more = arguments.len() + 1;
            line.push_str(&format!(" … ({more} more {})", if more == 1 { "argument" } else { "arguments" }));
            break;
        }
        line.push(' ');
        line.push_str(&argument);
    }
    line
}

fn quoted(argument: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:@,+%".contains(letter);
    match !argument.is_empty() && argument.chars().all(plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_so_that_it_can_be_repeated() {
        let mut command = Command::new("/usr/bin/tool");
        command.args(["--external:opcell:*", "it's", "-o", "a.wasm"]);
        assert_eq!(command_line(&command), r"tool '--external:opcell:*' 'it'\''s' -o a.wasm");
        command.args(["x"; 400]);
        let line = command_line(&command);
        assert!(line.len() < 450 && line.ends_with(" more arguments)"), "{line}");
    }
}
