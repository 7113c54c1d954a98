//! The part of the packages for other languages that knows neither of them.
//!
//! A binding reads an object of its language as a [`Value`](opcell::Value), and writes one back; everything between is
//! here: the settings of a host and its tenants ([`settings`]), errors as data ([`error`]), outcomes, events and
//! questions as data ([`data`]), rounds of models ([`model`]), and the updates of a run with the text of its models
//! ([`updates`]). So a host says the same in every language.
//!
//! **Must not know** a language, an interpreter, or the classes that a package makes of data.

pub mod data;
pub mod error;
pub mod model;
pub mod settings;
pub mod updates;
