//! Searches.

use crate::api::{Api, encode};
use crate::repository::Repository;
use crate::{FoundIssue, FoundIssues, FoundPullRequest, ListedIssue, Search, State};
use opcell_sdk::{Failure, Success, log, log::progress};
use serde::Deserialize;
use serde_json::Value;

/// Entries of one page, the most that the API gives.
const PAGE: usize = 100;

/// Pages that one call reads: a search that needs more needs labels.
const MAX_PAGES: usize = 10;

/// An issue as the API lists it; pull requests are listed among them.
#[derive(Debug, Clone, Deserialize)]
struct Entry {
    number: u64,
    title: String,
    html_url: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    labels: Vec<Value>,
    #[serde(default)]
    pull_request: Option<Value>,
}

/// What the two searches differ in.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Issue,
    PullRequest,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Issue => "issue",
            Self::PullRequest => "PR",
        }
    }

    /// What precedes the number in a URL.
    fn url_segment(self) -> &'static str {
        match self {
            Self::Issue => "/issues/",
            Self::PullRequest => "/pull/",
        }
    }

    fn no_match(self) -> &'static str {
        match self {
            Self::Issue => "psi.github/no-matching-issue",
            Self::PullRequest => "psi.github/no-matching-pr",
        }
    }
}

/// What the input asks of an entry.
enum Narrowing {
    Anything,
    Number(u64),
    Title(String),
}

impl Narrowing {
    fn of(input: Option<&str>, kind: Kind) -> Result<Self, Failure> {
        let Some(input) = input else { return Ok(Self::Anything) };
        if !input.is_empty() && input.bytes().all(|byte| byte.is_ascii_digit()) {
            // A number that no issue can have matches none.
            return Ok(Self::Number(input.parse().unwrap_or(u64::MAX)));
        }
        if !input.starts_with("https://") {
            return Ok(Self::Title(input.to_lowercase()));
        }
        let digits = |rest: &str| rest.bytes().take_while(u8::is_ascii_digit).map(char::from).collect::<String>();
        let mut numbers = input.split(kind.url_segment()).skip(1).map(digits);
        let number = numbers.find(|digits| !digits.is_empty()).and_then(|digits| digits.parse().ok());
        number.map(Self::Number).ok_or_else(|| {
            let message = format!("Cannot extract {} number from URL: {input}", kind.name());
            Failure::new("psi.github/invalid-url-input", message)
        })
    }

    fn fits(&self, entry: &Entry) -> bool {
        match self {
            Self::Anything => true,
            Self::Number(number) => entry.number == *number,
            Self::Title(text) => entry.title.to_lowercase().contains(text),
        }
    }
}

/// Everything with the labels, and whether there is more.
fn list(api: &Api, search: &Search, kind: Kind) -> Result<(Vec<Entry>, bool), Failure> {
    let state = match search.state.unwrap_or_default() {
        State::Open => "open",
        State::Closed => "closed",
        State::All => "all",
    };
    let labels = search.labels.iter().map(|label| encode(label)).collect::<Vec<_>>().join(",");
    let labels = if labels.is_empty() { labels } else { format!("&labels={labels}") };
    let mut found = Vec::new();
    for page in 1..=MAX_PAGES {
        let path = format!("/issues?state={state}{labels}&sort=created&direction=asc&per_page={PAGE}&page={page}");
        let (entries, response): (Vec<Entry>, _) = api.get(&path)?;
        found.extend(entries.into_iter().filter(|entry| (kind == Kind::PullRequest) == entry.pull_request.is_some()));
        if !response.has_next() {
            return Ok((found, false));
        }
        progress(page as u64, 0, "reading issues");
    }
    log!(warn, "{} pages are not all; the search stops here", MAX_PAGES);
    Ok((found, true))
}

/// The lowest-numbered entry that fits.
fn select(api: &Api, search: &Search, kind: Kind) -> Result<Entry, Failure> {
    let narrowing = Narrowing::of(search.input.as_deref(), kind)?;
    let (entries, truncated) = list(api, search, kind)?;
    let selected = entries.into_iter().filter(|entry| narrowing.fits(entry)).min_by_key(|entry| entry.number);
    selected.ok_or_else(|| {
        let labels = search.labels.iter().map(|label| format!("{label:?}")).collect::<Vec<_>>().join(" ");
        let input = search.input.as_ref().map(|input| format!(" and input {input:?}")).unwrap_or_default();
        let among = if truncated { format!(" among the first {}", PAGE * MAX_PAGES) } else { String::new() };
        Failure::new(kind.no_match(), format!("No open {} matching labels [{labels}]{input}{among}", kind.name()))
    })
}

pub fn issue(search: &Search) -> Result<Success<FoundIssue>, Failure> {
    let api = Api::of(search.api.as_deref(), &Repository::find(search.repo.as_deref())?);
    let Entry { number, title, html_url: url, .. } = select(&api, search, Kind::Issue)?;
    let slug = slug(&title);
    let summary = format!(
        "## Issue Selection\n\nSelected issue #{number}: {title}\n\n## Handoff Data\n- issue_number: {number}\n\
         - issue_title: {title}\n- issue_url: {url}\n- worktree_description: {slug}\n"
    );
    let found = FoundIssue { issue_number: number, issue_title: title, issue_url: url, worktree_description: slug };
    Ok(Success::new(found).with_summary(summary))
}

/// A pull request as the API describes it alone.
#[derive(Deserialize)]
struct PullRequest {
    head: Branch,
    base: Branch,
}

#[derive(Deserialize)]
struct Branch {
    #[serde(rename = "ref")]
    name: String,
}

pub fn pull_request(search: &Search) -> Result<Success<FoundPullRequest>, Failure> {
    let api = Api::of(search.api.as_deref(), &Repository::find(search.repo.as_deref())?);
    let Entry { number, title, html_url: url, .. } = select(&api, search, Kind::PullRequest)?;
    let (PullRequest { head, base }, _) = api.get(&format!("/pulls/{number}"))?;
    let (branch, base, slug) = (head.name.clone(), base.name, slug(&head.name));
    let summary = format!(
        "## PR Selection\n\nSelected PR #{number}: {title}\n\n## Handoff Data\n- pr_number: {number}\n- pr_title: {title}\n\
         - pr_url: {url}\n- pr_branch: {branch}\n- base_branch: {base}\n- worktree_description: {slug}\n"
    );
    let found = FoundPullRequest {
        pr_number: number,
        pr_title: title,
        pr_url: url,
        pr_branch: branch,
        base_branch: base,
        worktree_description: slug,
    };
    Ok(Success::new(found).with_summary(summary))
}

pub fn issues(search: &Search) -> Result<Success<FoundIssues>, Failure> {
    let narrowing = Narrowing::of(search.input.as_deref(), Kind::Issue)?;
    let api = Api::of(search.api.as_deref(), &Repository::find(search.repo.as_deref())?);
    let (mut entries, truncated) = list(&api, search, Kind::Issue)?;
    entries.retain(|entry| narrowing.fits(entry));
    entries.sort_by_key(|entry| entry.number);
    let issues: Vec<ListedIssue> = entries.into_iter().map(listed).collect();
    let more = if truncated { ", and there are more" } else { "" };
    let summary = format!("{} issues found{more}", issues.len());
    Ok(Success::new(FoundIssues { issues, truncated }).with_summary(summary))
}

fn listed(entry: Entry) -> ListedIssue {
    // A label is an object with a name, or in old answers the name itself.
    let name = |label: &Value| label.get("name").unwrap_or(label).as_str().map(str::to_owned);
    ListedIssue {
        issue_number: entry.number,
        issue_title: entry.title,
        issue_url: entry.html_url,
        state: entry.state,
        labels: entry.labels.iter().filter_map(name).collect(),
    }
}

/// Words of a-z and 0-9 joined by dashes, at most 40 characters, no dash at the end.
fn slug(text: &str) -> String {
    let lower = text.to_lowercase();
    let words =
        lower.split(|character: char| !matches!(character, 'a'..='z' | '0'..='9')).filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join("-");
    joined.chars().take(40).collect::<String>().trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use crate::testing::Server;
    use crate::{find_issue, find_pr, search_issues_by_label};
    use opcell_sdk::testing::invoke;
    use serde_json::{Value, json};

    fn arguments(more: Value) -> Value {
        let mut arguments = json!({ "repo": "acme/rocket" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    }

    fn server() -> Server {
        Server::new()
            .issue(7, "Engine: it does NOT start!", &["bug", "triage"])
            .issue(3, "Leak in the tank", &["bug"])
            .issue(9, "Engine too loud", &["bug", "triage"])
            .pull_request(5, "Fix the leak", &["review"], "fix/leak-in-tank")
    }

    #[test]
    fn the_lowest_numbered_issue_with_all_labels_wins() {
        let _host = server().install();

        let found = invoke::<find_issue>(&arguments(json!({ "labels": ["bug", "triage"], "input": null }))).unwrap();

        assert_eq!(
            found.data,
            json!({
                "issue-number": 7,
                "issue-title": "Engine: it does NOT start!",
                "issue-url": "https://github.com/acme/rocket/issues/7",
                "worktree-description": "engine-it-does-not-start",
            })
        );
        assert_eq!(
            found.summary.unwrap(),
            "## Issue Selection\n\nSelected issue #7: Engine: it does NOT start!\n\n## Handoff Data\n- issue_number: 7\n\
             - issue_title: Engine: it does NOT start!\n- issue_url: https://github.com/acme/rocket/issues/7\n\
             - worktree_description: engine-it-does-not-start\n"
        );
    }

    #[test]
    fn the_input_narrows_by_number_url_or_title() {
        let _host = server().install();
        for (input, expected) in
            [("9", 9), ("https://github.com/acme/rocket/issues/9#issuecomment-1", 9), ("TOO LOUD", 9), ("leak", 3)]
        {
            let found = invoke::<find_issue>(&arguments(json!({ "labels": ["bug"], "input": input }))).unwrap();
            assert_eq!(found.data["issue-number"], expected, "{input}");
        }
    }

    #[test]
    fn what_fits_nothing_says_what_was_searched() {
        let _host = server().install();

        let failure = invoke::<find_issue>(&arguments(json!({ "labels": ["bug", "new"], "input": "x" }))).unwrap_err();
        assert_eq!(failure.reason, "psi.github/no-matching-issue");
        assert_eq!(failure.message, "No open issue matching labels [\"bug\" \"new\"] and input \"x\"");

        let failure = invoke::<find_issue>(&arguments(json!({ "input": "https://github.com/acme" }))).unwrap_err();
        assert_eq!(failure.reason, "psi.github/invalid-url-input");
        assert_eq!(failure.message, "Cannot extract issue number from URL: https://github.com/acme");
    }

    #[test]
    fn a_pull_request_comes_with_its_branches() {
        let _host = server().install();

        let found =
            invoke::<find_pr>(&arguments(json!({ "labels": [], "input": "https://github.com/acme/rocket/pull/5" })))
                .unwrap();

        assert_eq!(
            found.data,
            json!({
                "pr-number": 5,
                "pr-title": "Fix the leak",
                "pr-url": "https://github.com/acme/rocket/pull/5",
                "pr-branch": "fix/leak-in-tank",
                "base-branch": "main",
                "worktree-description": "fix-leak-in-tank",
            })
        );
    }

    #[test]
    fn an_issue_is_not_a_pull_request() {
        let _host = server().install();

        assert_eq!(
            invoke::<find_pr>(&arguments(json!({ "input": "7" }))).unwrap_err().reason,
            "psi.github/no-matching-pr"
        );
        assert_eq!(
            invoke::<find_issue>(&arguments(json!({ "input": "5" }))).unwrap_err().reason,
            "psi.github/no-matching-issue"
        );
    }

    #[test]
    fn a_search_lists_by_number_with_labels() {
        let _host = server().install();

        let found = invoke::<search_issues_by_label>(&arguments(json!({ "labels": ["triage"] }))).unwrap();

        let numbers: Vec<_> =
            found.data["issues"].as_array().unwrap().iter().map(|issue| issue["issue-number"].clone()).collect();
        assert_eq!(numbers, [7, 9]);
        assert_eq!(found.data["issues"][0]["labels"], json!(["bug", "triage"]));
        assert_eq!(found.data["truncated"], false);
    }

    #[test]
    fn a_search_reads_pages_up_to_its_bound() {
        let many = (1..=1234).fold(Server::new(), |server, number| server.issue(number, "again", &["bug"]));
        let host = many.install();

        let found = invoke::<search_issues_by_label>(&arguments(json!({ "labels": ["bug"] }))).unwrap();

        assert_eq!(found.data["issues"].as_array().unwrap().len(), 1000);
        assert_eq!(found.data["truncated"], true);
        assert_eq!(host.tool_calls().len(), 10);
    }

    #[test]
    fn an_unknown_repository_is_the_servers_answer() {
        let _host = server().install();

        let failure = invoke::<find_issue>(&json!({ "repo": "acme/other" })).unwrap_err();

        assert_eq!(failure.reason, "github/http-error");
        assert!(failure.message.ends_with("answered 404: Not Found"), "{}", failure.message);
    }
}
