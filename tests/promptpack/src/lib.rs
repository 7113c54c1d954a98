//! The reference's PromptPack library in Rust: its state machine with its two tools, which the conformance cases drive.
//!
//! No product code uses it: the engine runs the same rules (`opcell_ir::routing`) over events of its own.
//!
//! # The reference's package, operation by operation
//!
//! | `runtime/workflow` | here |
//! | --- | --- |
//! | `ParseConfig` | [`Spec::from_config`] |
//! | `Spec`, `State`, `ArtifactDef`, `Budget` | [`Spec`], [`State`], [`spec::ArtifactDef`], [`spec::Budget`] by [`Spec::budget`] |
//! | `Orchestration`, `Persistence` | the fields of [`State`] as written; compiled, [`Orchestration`](opcell_ir::ir::Orchestration) |
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

pub mod context;
pub mod machine;
pub mod tools;

#[cfg(doc)]
use opcell_workflow::promptpack::{Spec, State, ValidationResult, arguments, spec, validate};

pub use context::Context;
pub use machine::{StateMachine, TransitionError, TransitionResult};
