//! Reading `[journal]`.

use super::{Checker, duration, span_of};
use crate::{
    config::{
        JournalPlace, JournalServer, JournalSettings,
        text::{JournalText, PasswordText},
    },
    http::SecretSource,
};
use opcell_ir::{Diagnostic, Span};
use serde_spanned::Spanned;

impl Checker<'_> {
    pub(super) fn journal(&mut self, text: Spanned<JournalText>) -> JournalSettings {
        let span = span_of(&text);
        let text = match text.into_inner() {
            JournalText::Place(place) => {
                let project = Some(self.root.to_owned());
                return JournalSettings { project, ..JournalSettings::at(self.journal_place(&place, span)) };
            }
            JournalText::Table(table) => table,
        };
        let place = match (&text.path, &text.url) {
            (Some(path), None) => JournalPlace::File(self.root.join(path.get_ref())),
            (None, Some(url)) => match self.journal_place(url.get_ref(), span_of(url)) {
                JournalPlace::Server(server) => {
                    JournalPlace::Server(self.with_password(server, text.password.as_ref()))
                }
                place => {
                    let message = "`url` is not a URL; expected postgres://USER@HOST:PORT/DATABASE".to_owned();
                    self.error("invalid-journal", span_of(url), message, Some("`path` names a file".to_owned()));
                    place
                }
            },
            (None, None) => JournalPlace::File(self.root.join(JournalSettings::DEFAULT_PATH)),
            (Some(path), Some(url)) => {
                let help = Some("remove `path` or `url`".to_owned());
                self.error("invalid-journal", span_of(url), "a journal is a file or on a server".to_owned(), help);
                JournalPlace::File(self.root.join(path.get_ref()))
            }
        };
        if let (Some(password), JournalPlace::File(_)) = (&text.password, &place) {
            let message = "a file has no password".to_owned();
            let help = Some("`password` belongs to a server that `url` names".to_owned());
            self.error("invalid-journal", span_of(password), message, help);
        }
        let max_age = text.max_age.and_then(|age| {
            let parsed = duration(age.get_ref());
            if parsed.is_none() {
                let message = format!("`{}` is not a duration", age.get_ref());
                self.error("invalid-duration", span_of(&age), message, Some("write `30 days` or `12 h`".to_owned()));
            }
            parsed
        });
        JournalSettings { place, keep: text.keep, max_age, project: Some(self.root.to_owned()) }
    }

    fn journal_place(&mut self, written: &str, span: Span) -> JournalPlace {
        let place = match written.parse() {
            Ok(JournalPlace::File(path)) => JournalPlace::File(self.root.join(path)),
            Ok(place) => place,
            Err(message) => {
                self.error("invalid-journal", span, message, None);
                JournalPlace::File(self.root.join(JournalSettings::DEFAULT_PATH))
            }
        };
        if let JournalPlace::Server(server) = &place
            && server.holds_password()
        {
            let message = "the URL holds a password, and a project file is not the place for secrets".to_owned();
            let help = "name its source: `[journal]`, `url = \"postgres://USER@HOST/DATABASE\"`, `password = { env = \"NAME\" }`";
            // Without its place: that would print the line with the password.
            self.findings.push(Diagnostic::error("invalid-journal", message).help(help.to_owned()));
        }
        place
    }

    fn with_password(&mut self, mut server: JournalServer, text: Option<&Spanned<PasswordText>>) -> JournalServer {
        server.password = text.and_then(|text| match (&text.get_ref().env, &text.get_ref().file) {
            (Some(name), None) => Some(SecretSource::Env(name.clone())),
            (None, Some(file)) => Some(SecretSource::File(self.root.join(file))),
            _ => {
                let message = "a password needs exactly one of `env` and `file`".to_owned();
                self.error("invalid-journal", span_of(text), message, None);
                None
            }
        });
        server
    }
}
