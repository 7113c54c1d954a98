//! The files beside a document. Whoever compiles it decides which of them it may read.

/// The files beside a document that it may bring in: prompts, schemas, skills.
pub trait Companions {
    /// The text of a file, by its path relative to the workflow's folder; `None` when there is none.
    ///
    /// # Errors
    /// Why a file that exists cannot be read.
    fn text(&self, path: &str) -> Option<Result<String, String>>;

    /// The files of this name in and under a folder, by their paths relative to the workflow's folder, sorted; none
    /// where no one looks.
    fn files(&self, _folder: &str, _name: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Nothing beside the workflow.
#[derive(Debug)]
pub struct NoCompanions;

impl Companions for NoCompanions {
    fn text(&self, _path: &str) -> Option<Result<String, String>> {
        None
    }
}
