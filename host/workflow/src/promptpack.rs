//! PromptPack: packs of prompts whose workflow is an event-driven state machine (RFC 0005, 0007, 0009, 0010).
//!
//! A pack is read ([`crate::json`], [`mod@pack`]), checked against the published schema ([`schema`]) and by the
//! reference's own rules ([`mod@validate`], [`composition`]) and ours ([`mod@checks`]), and compiled to the execution
//! model ([`mod@compile`], [`compose`], with the schemas of [`contracts`] and the [`agents`] that call one another).
//! Beside it stands the reference's library in Rust: the state machine ([`machine`], [`context`]) with its two tools
//! ([`tools`]) and templates ([`template`]). Where the reference is unsafe or loses information, the engine's path does
//! better and the type says so.
//!
//! # The reference's package, operation by operation
//!
//! | `runtime/workflow` | here |
//! | --- | --- |
//! | `ParseConfig` | [`Spec::from_config`] |
//! | `Spec`, `State`, `ArtifactDef`, `Budget` | [`Spec`], [`State`], [`spec::ArtifactDef`], [`spec::Budget`] by [`Spec::budget`] |
//! | `Orchestration`, `Persistence` | the fields of [`State`] as written; compiled, [`Orchestration`](crate::ir::Orchestration) |
//! | `SortedEvents` | [`spec::sorted_events`] |
//! | `Validate`, `ValidationResult`, `HasErrors` | [`validate()`], [`ValidationResult`], [`ValidationResult::has_errors`] |
//! | `NewContext` | [`Context::new`] |
//! | `Context.Clone` | `Clone`: a snapshot that the run no longer touches |
//! | `Context.GetArtifact`, `SetArtifact` | [`Context::artifact`], [`Context::set_artifact`] |
//! | `Context.IncrementToolCalls` | [`Context::increment_tool_calls`] |
//! | `Context.RecordTransition`, `LastTransition`, `TransitionCount` | [`Context::record_transition`], [`Context::last_transition`], [`Context::transition_count`] |
//! | `Context.TotalVisits` | [`Context::total_visits`] |
//! | `StateTransition`, `ArtifactSnapshot`, `MaxHistoryLength` | [`context::StateTransition`], [`context::ArtifactSnapshot`], [`context::MAX_HISTORY_LENGTH`] |
//! | `NewStateMachine`, `NewStateMachineFromContext` | [`StateMachine::new`]; [`StateMachine::restore`], which checks, and [`StateMachine::from_context`], which does not |
//! | `WithTimeFunc`, `TimeFunc` | no clock: whoever asks gives the time |
//! | `CurrentState`, `CurrentPromptTask`, `AvailableEvents`, `IsTerminal` | [`StateMachine::current_state`], [`StateMachine::current_prompt_task`], [`StateMachine::available_events`], [`StateMachine::is_terminal`] |
//! | `Artifacts`, `SetArtifact`, `IncrementToolCalls`, `Context` | [`StateMachine::artifacts`], [`StateMachine::set_artifact`], [`StateMachine::increment_tool_calls`], [`StateMachine::context`] |
//! | `ProcessEvent`, `TransitionResult` | [`StateMachine::process_event`], [`TransitionResult`] |
//! | `ErrInvalidEvent`, `ErrTerminalState`, `ErrMaxVisitsExceeded`, `ErrBudgetExhausted` | the variants of [`TransitionError`] |
//! | `BuildTransitionToolDescriptor`, `BuildArtifactToolDescriptor` | [`tools::transition_tool`], [`tools::artifact_tool`] |
//! | `RegisterTransitionTool`, `TransitionExecutor.RegisterForState` | [`tools::ToolSet::register_transition`]: each run has its own set |
//! | `RegisterArtifactTool` | [`tools::ToolSet::register_artifact`] |
//! | `TransitionToolName`, `TransitionExecutorMode`, `TransitionExecutor.Name` | [`tools::TRANSITION_TOOL`], [`tools::TRANSITION_MODE`] |
//! | `ArtifactToolName`, `ArtifactExecutorMode`, `ArtifactExecutor.Name` | [`tools::ARTIFACT_TOOL`], [`tools::ARTIFACT_MODE`] |
//! | `NewTransitionExecutor`, `Execute`, `Pending`, `ClearPending`, `CommitPending`, `PendingTransition` | [`tools::TransitionExecutor`] and its methods, [`tools::PendingTransition`] |
//! | `TransitionExecutor.StateMachine` | the machine is the caller's own and is passed in |
//! | `NewArtifactExecutor`, `Execute` | [`tools::ArtifactExecutor`] |
//! | `tools.Registry.Execute`: coercion and schema check | [`tools::ToolSet::admit`], [`arguments`] |

pub mod agents;
pub mod arguments;
pub mod checks;
pub mod compile;
pub mod compose;
pub mod composition;
pub mod context;
pub mod contracts;
pub mod decode;
mod governed;
pub mod machine;
pub mod pack;
pub mod schema;
mod skills;
mod speaker;
pub mod spec;
pub mod template;
pub mod tools;
pub mod validate;

pub use compile::{compile, compile_with};
pub use compose::compile_composition;
pub use context::Context;
pub use contracts::Contracts;
pub use machine::{StateMachine, TransitionError, TransitionResult};
pub use pack::Pack;
pub use spec::{Spec, State};
pub use validate::{ValidationResult, validate};
