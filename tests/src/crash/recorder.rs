//! Whoever watches from outside: one file that outlives every process, in which what was done to the world and what the
//! journal acknowledged stand in the order in which they happened.

use anyhow::{Context as _, Result};
use opcell_journal::Record;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::Write as _,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

/// One thing that was done to the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Deed {
    /// The idempotency key.
    pub key: String,
    /// The step.
    pub step: String,
    /// Its visit.
    pub visit: u32,
    /// Its attempt; attempts share a key.
    pub attempt: u32,
    /// An operation, a judge, a tool, or `model`.
    pub what: String,
    /// Its arguments, as JSON.
    pub with: String,
}

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Line {
    /// Something was done.
    Deed(Deed),
    /// The journal said that this record is durable.
    Durable {
        /// The record's number, from 1.
        seq: u64,
        /// Digest of everything that it says.
        digest: u64,
    },
    /// A person is about to answer a question.
    Sent {
        /// ID of the question.
        question: String,
        /// The arguments of the call as the question shows them, as JSON.
        asked: String,
        /// The answer, as JSON.
        answer: String,
    },
    /// The person was told that the answer is recorded.
    Acknowledged {
        /// ID of the question.
        question: String,
        /// The answer, as JSON.
        answer: String,
    },
}

/// The file, open.
pub struct Recorder {
    file: File,
    /// The most bytes of a file where the disk counts as full; 0 where it does not.
    full: AtomicU64,
}

impl Recorder {
    /// Opens the file of a directory, behind what it says already.
    pub fn open(directory: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(directory.join("recorder"))?;
        Ok(Self { file, full: AtomicU64::new(0) })
    }

    /// Lets no file of this process get longer than this, but for the recorder's own.
    pub fn fill(&self, bytes: u64) {
        self.full.store(bytes.max(1), SeqCst);
        limit_files(Some(bytes.max(1)));
    }

    /// Everything that was recorded in a directory.
    pub fn lines(directory: &Path) -> Result<Vec<Line>> {
        let text = std::fs::read_to_string(directory.join("recorder")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
    }

    /// Something is done now.
    pub fn deed(&self, deed: Deed) {
        self.line(Line::Deed(deed));
    }

    /// One line.
    pub fn line(&self, line: Line) {
        self.write(&[line]);
    }

    /// The journal acknowledged these records.
    pub fn durable(&self, records: &[Record]) {
        let lines: Vec<Line> = records.iter().map(durable).collect();
        self.write(&lines);
    }

    /// One write of less than a page: it is there as a whole or not at all, and stays whatever happens to this process.
    fn write(&self, lines: &[Line]) {
        let full = self.full.load(SeqCst);
        if full > 0 {
            limit_files(None);
        }
        for line in lines {
            let line = serde_json::to_string(line).unwrap_or_default() + "\n";
            if let Err(error) = (&self.file).write_all(line.as_bytes()) {
                tracing::error!(%error, "the recorder could not write");
            }
        }
        if full > 0 {
            limit_files(Some(full));
        }
    }
}

/// Limits the bytes of each file that this process writes; the limit can be lifted again.
fn limit_files(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    if let Err(error) = setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }) {
        tracing::error!(%error, "the size of files could not be limited");
    }
}

/// Returns the line that the recorder writes for a record.
pub fn durable(record: &Record) -> Line {
    let mut hasher = DefaultHasher::new();
    (record.seq, &record.kind, record.version, record.at, &*record.payload).hash(&mut hasher);
    Line::Durable { seq: record.seq, digest: hasher.finish() }
}
