//! Issues, pull requests and their labels, over the host tool `http.fetch`.
//!
//! The plugin never sees a credential: the host adds it to requests that the operator's grant allows.

mod api;
mod find;
mod labels;
mod repository;

use opcell_sdk::{Failure, Success, operation, plugin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An issue that was found.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct FoundIssue {
    issue_number: u64,
    issue_title: String,
    issue_url: String,
    /// The title as a name for a branch or folder: words of a-z and 0-9 joined by dashes, at most 40 characters.
    worktree_description: String,
}

/// A pull request that was found.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct FoundPullRequest {
    pr_number: u64,
    pr_title: String,
    pr_url: String,
    /// The branch that it would merge.
    pr_branch: String,
    /// The branch that it would be merged into.
    base_branch: String,
    /// The branch's name as a name for a folder.
    worktree_description: String,
}

/// What the operations that search take.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// Only what has all of these labels.
    #[serde(default)]
    labels: Vec<String>,
    /// Narrows further: a number, a URL, or text that the title contains in any case.
    #[serde(default)]
    input: Option<String>,
    /// `open` unless given.
    #[serde(default)]
    state: Option<State>,
    /// `owner/name` or `host/owner/name`; without it, the remote `origin` of the granted workspace.
    #[serde(default)]
    repo: Option<String>,
    /// Where the REST API is; the one of the repository's host unless given.
    #[serde(default)]
    api: Option<String>,
}

/// Which state to search in.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum State {
    #[default]
    Open,
    Closed,
    All,
}

/// Finds the lowest-numbered issue that has all labels and fits the input.
#[operation("github/find-issue", effects = idempotent)]
fn find_issue(arguments: Search) -> Result<Success<FoundIssue>, Failure> {
    find::issue(&arguments)
}

/// Finds the lowest-numbered pull request that has all labels and fits the input.
#[operation("github/find-pr", effects = idempotent)]
fn find_pr(arguments: Search) -> Result<Success<FoundPullRequest>, Failure> {
    find::pull_request(&arguments)
}

/// The issues that were found.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct FoundIssues {
    issues: Vec<ListedIssue>,
    /// Whether there are more than were read.
    truncated: bool,
}

/// One of them.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct ListedIssue {
    issue_number: u64,
    issue_title: String,
    issue_url: String,
    state: String,
    labels: Vec<String>,
}

/// Lists the issues that have all labels, by number.
#[operation("github/search-issues-by-label", effects = idempotent)]
fn search_issues_by_label(arguments: Search) -> Result<Success<FoundIssues>, Failure> {
    find::issues(&arguments)
}

/// What `github/edit-labels` takes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LabelEdit {
    /// Of the issue or pull request.
    number: u64,
    /// Labels to add.
    #[serde(default)]
    add: Vec<String>,
    /// Labels to remove; one that is not there is as good as removed.
    #[serde(default)]
    remove: Vec<String>,
    /// `issue` unless given.
    #[serde(default)]
    target: Option<Target>,
    /// `owner/name` or `host/owner/name`; without it, the remote `origin` of the granted workspace.
    #[serde(default)]
    repo: Option<String>,
    /// Where the REST API is; the one of the repository's host unless given.
    #[serde(default)]
    api: Option<String>,
}

/// What a number belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Target {
    #[default]
    Issue,
    Pr,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Issue => "issue",
            Self::Pr => "pr",
        }
    }
}

/// Labels that were edited.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct EditedLabels {
    number: u64,
    target: Target,
    added_labels: Vec<String>,
    removed_labels: Vec<String>,
}

/// Adds and removes labels of an issue or a pull request.
#[operation("github/edit-labels", effects = idempotent)]
fn edit_labels(arguments: LabelEdit) -> Result<Success<EditedLabels>, Failure> {
    labels::edit(arguments)
}

plugin! {
    capabilities: {
        tool "http.fetch": "asks the GitHub REST API for issues and pull requests, and edits their labels",
        files "workspace" read: "reads .git/config to find the repository when a call does not name it",
    },
    operations: [find_issue, find_pr, search_issues_by_label, edit_labels],
}

#[cfg(test)]
mod testing;
