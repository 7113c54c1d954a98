//! The tables of an SQLite file, apart from those that this program makes.
//!
//! A file may come with a checkout. A trigger or a view in it is a program that runs when its table is used, a
//! constraint or a virtual table one that runs when the file is checked: a store that has any of them is not opened.

use rusqlite::Connection;
use std::collections::BTreeSet;

/// The tables that SQLite itself makes when its statistics are gathered.
const STATISTICS: [&str; 2] =
    ["CREATE TABLE sqlite_stat1(tbl,idx,stat)", "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"];

/// One table, index, trigger or view: its kind, name and definition.
type Part = (String, String, String);

/// The tables, indexes, triggers and views that statements make.
#[derive(Debug)]
pub struct Tables(BTreeSet<Part>);

/// A difference between the tables of a file and those that it should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// It has one more, or one that is defined otherwise.
    Foreign {
        /// `table`, `index`, `trigger` or `view`.
        kind: String,
        /// Its name.
        name: String,
    },
    /// It lacks one.
    Missing {
        /// `table`, `index`, `trigger` or `view`.
        kind: String,
        /// Its name.
        name: String,
    },
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign { kind, name } => {
                write!(f, "it has a {kind} `{}` that no version of this program makes", shown(name))
            }
            Self::Missing { kind, name } => write!(f, "it lacks the {kind} `{}`", shown(name)),
        }
    }
}

/// A name that anyone may have chosen, for a message.
fn shown(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).take(60).collect()
}

impl Tables {
    /// Returns the tables that these statements make.
    ///
    /// # Errors
    /// SQLite's.
    pub fn made_by(statements: &str) -> rusqlite::Result<Self> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(statements)?;
        let mut parts = BTreeSet::new();
        each_part(&connection, |part| {
            parts.insert(part);
            true
        })?;
        Ok(Self(parts))
    }

    /// The first difference between these and what a file has; names in `replaced` may be defined in any way, or be
    /// missing, because they are made anew before anything uses them.
    ///
    /// # Errors
    /// SQLite's.
    pub fn difference(&self, connection: &Connection, replaced: &[&str]) -> rusqlite::Result<Option<Difference>> {
        let mut missing = self.0.clone();
        let mut foreign = None;
        each_part(connection, |part| {
            let known = missing.remove(&part)
                || replaced.contains(&part.1.as_str())
                || (part.0 == "table" && STATISTICS.contains(&part.2.as_str()));
            if !known {
                foreign = Some(Difference::Foreign { kind: part.0, name: part.1 });
            }
            known
        })?;
        let missing = missing.into_iter().find(|(_, name, _)| !replaced.contains(&name.as_str()));
        Ok(foreign.or(missing.map(|(kind, name, _)| Difference::Missing { kind, name })))
    }
}

/// Looks at every part of a file until `look` says that it has seen enough.
fn each_part(connection: &Connection, mut look: impl FnMut(Part) -> bool) -> rusqlite::Result<()> {
    let mut query = connection.prepare("SELECT type, name, coalesce(sql, '') FROM sqlite_schema")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        if !look((row.get(0)?, row.get(1)?, row.get(2)?)) {
            break;
        }
    }
    Ok(())
}
