//! Templates and their variables.

use super::*;

fn variables(entries: &[(&str, &str)]) -> Variables {
    entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_value_is_never_expanded_again() {
    let values = variables(&[("artifacts.note", "see {{secret}}"), ("secret", "hunter2")]);
    assert_eq!(render("Note: {{artifacts.note}}", &values).unwrap(), "Note: see {{secret}}");
}

#[test]
fn unset_artifacts_and_an_absent_summary_are_empty() {
    assert_eq!(render("[{{artifacts.sha}}|{{workflow_context}}]", &Variables::new()).unwrap(), "[|]");
}

#[test]
fn a_token_that_names_nothing_is_an_error_that_names_it() {
    let error = render("{{company}} and {{ spaced }}", &Variables::new()).unwrap_err();
    assert_eq!(error.to_string(), "unresolved template placeholders: [{{company}} {{ spaced }}]");
}

#[test]
fn required_variables_must_be_there_and_not_empty() {
    let values = variables(&[("a", "x"), ("b", "")]);
    let required = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
    let error = template::require(&required, &values).unwrap_err();
    assert_eq!(error.to_string(), "missing required variables: [b c]");
}

#[test]
fn a_value_that_refers_to_itself_cannot_blow_up_the_reference_rule() {
    let bomb = "{{n}}".repeat(5);
    assert_eq!(render_nested("{{n}}", &variables(&[("n", &bomb)])), Err(TemplateError::TooLarge));
    assert_eq!(render("{{n}}", &variables(&[("n", &bomb)])).unwrap(), bomb);
}

#[test]
fn a_cut_never_splits_a_character() {
    assert_eq!(template::shorten("naïve", 3), "na...");
    assert_eq!(template::shorten("naïve", 10), "naïve");
}
