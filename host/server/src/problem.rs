//! Problems of requests, in the form of RFC 9457: `application/problem+json`.

use crate::api::{
    shapes::{CallReceipt, Finding},
    shown,
};
use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use opcell::{Diagnostic, Failure, FailureKind, Rejected, host::StartError, remedy};
use opcell_engine::RunError;
use opcell_journal::JournalError;
use serde::Serialize;
use serde_json::Value as Json_;
use utoipa::ToSchema;

/// Why a request was not done.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Problem {
    /// `urn:opcell:problem:CODE`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code, in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// One sentence: what is wrong with which value.
    pub detail: String,
    /// Stable kebab-case identifier of the problem, as the command prints it.
    pub code: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Findings with their places in the document or the project file, if the problem is one of those.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Finding>)]
    pub findings: Vec<Json_>,
    /// The receipt of the call, if the problem is that it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<CallReceipt>)]
    pub receipt: Option<Json_>,
    /// Seconds after which trying again makes sense.
    #[serde(skip)]
    pub retry_after: Option<u64>,
}

impl Problem {
    /// A problem.
    #[must_use]
    pub fn new(status: StatusCode, code: impl Into<String>, detail: impl Into<String>) -> Self {
        let code = code.into();
        Self {
            kind: format!("urn:opcell:problem:{code}"),
            title: code.replace('-', " "),
            status: status.as_u16(),
            detail: detail.into(),
            code,
            remedy: None,
            findings: Vec::new(),
            receipt: None,
            retry_after: None,
        }
    }

    /// The same, with what would solve it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Something that the path names does not exist.
    #[must_use]
    pub fn not_found(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// A value of the request is wrong.
    #[must_use]
    pub fn bad_request(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// A call that failed, with its receipt.
    #[must_use]
    pub fn of_failure(failure: &Failure, receipt: Option<Json_>) -> Self {
        // By source and reason: a plugin chooses its reasons, and none of them is the host's word.
        let status = match failure.kind() {
            FailureKind::Unknown | FailureKind::Host("not-found") => StatusCode::NOT_FOUND,
            FailureKind::InvalidArguments => StatusCode::BAD_REQUEST,
            FailureKind::Denied(_) => StatusCode::FORBIDDEN,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let mut problem = Self::new(status, failure.reason.as_ref(), failure.message.clone());
        problem.remedy = failure.denial.as_ref().and_then(|denial| remedy::render(&denial.remedy));
        problem.receipt = receipt;
        problem
    }
}

impl From<Rejected> for Problem {
    fn from(rejected: Rejected) -> Self {
        let first = rejected.diagnostics.first();
        let code = first.map_or("rejected", |first| first.code);
        let status = match code {
            "unknown-workflow" | "unknown-operation" => StatusCode::NOT_FOUND,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let mut problem = Self::new(status, code, rejected.to_string());
        let help = |first: &Diagnostic| first.help.clone().or_else(|| remedy::of_code(first.code));
        problem.remedy = first.and_then(help);
        problem.findings = rejected.to_json();
        problem
    }
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Rejected(rejected) => Self { status: 422, ..rejected.into() },
            StartError::Run(error) => error.into(),
            other => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "not-started", other.to_string()),
        }
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        let status = match &error {
            RunError::Journal(error) => return Self::from(error.as_ref()),
            RunError::ShuttingDown => {
                let stopping = Self::new(StatusCode::SERVICE_UNAVAILABLE, error.kind(), error.to_string());
                return Self { retry_after: Some(5), ..stopping };
            }
            RunError::MayNotApprove { signal, .. } => {
                let detail =
                    format!("`{}` is an approval, and the token does not have the scope `approve`", shown(signal));
                return Self::new(StatusCode::FORBIDDEN, "scope-missing", detail);
            }
            RunError::UnknownSignal { .. } | RunError::NoSuchEvent { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::CONFLICT,
        };
        Self::new(status, error.kind(), error.to_string())
    }
}

impl From<&JournalError> for Problem {
    fn from(error: &JournalError) -> Self {
        let status = match error {
            JournalError::UnknownRun(_) => StatusCode::NOT_FOUND,
            JournalError::RunExists(_)
            | JournalError::Held { .. }
            | JournalError::FromElsewhere { .. }
            | JournalError::TooLarge { .. }
            | JournalError::Ended { .. }
            | JournalError::Torn { .. }
            | JournalError::Broken { .. }
            | JournalError::Full { .. } => StatusCode::CONFLICT,
            // What is wrong with the store is for its operator.
            _ => return Self::new(StatusCode::SERVICE_UNAVAILABLE, "journal-unavailable", error.to_string()),
        };
        Self::new(status, error.kind(), error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.retry_after;
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"opcell\""));
        }
        response
    }
}
