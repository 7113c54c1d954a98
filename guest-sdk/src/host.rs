//! The party that answers host calls: the host in a component, the double of the current test in a native build. Both
//! offer the same functions over the same types, those of `wit/`.

#[cfg(target_arch = "wasm32")]
pub use crate::bindings::imports::opcell::plugin0_1_0::{files, log, skills, tools};
#[cfg(target_arch = "wasm32")]
pub use crate::bindings::imports::opcell::plugin0_2_0::store;
#[cfg(target_arch = "wasm32")]
pub use crate::bindings::imports::opcell::plugin0_3_0::calls;

#[cfg(not(target_arch = "wasm32"))]
pub use crate::testing::double::{calls, files, log, skills, store, tools};
