//! The published meta-schemas, which documents may refer to without carrying them.

use referencing::meta;
use serde_json::Value;
use std::sync::{Arc, LazyLock};

/// All meta-schemas of the draft that an address belongs to, the address without its fragment.
pub(super) fn documents(address: &str) -> &'static [&'static Value] {
    static NONE: [&Value; 0] = [];
    type Documents = LazyLock<Vec<&'static Value>>;
    fn list(of: &[&'static LazyLock<Arc<Value>>]) -> Vec<&'static Value> {
        of.iter().map(|schema| &****schema).collect()
    }
    static DRAFT_4: Documents = LazyLock::new(|| list(&[&meta::DRAFT4]));
    static DRAFT_6: Documents = LazyLock::new(|| list(&[&meta::DRAFT6]));
    static DRAFT_7: Documents = LazyLock::new(|| list(&[&meta::DRAFT7]));
    static DRAFT_2019: Documents = LazyLock::new(|| {
        list(&[
            &meta::DRAFT201909,
            &meta::DRAFT201909_APPLICATOR,
            &meta::DRAFT201909_CONTENT,
            &meta::DRAFT201909_CORE,
            &meta::DRAFT201909_FORMAT,
            &meta::DRAFT201909_META_DATA,
            &meta::DRAFT201909_VALIDATION,
        ])
    });
    static DRAFT_2020: Documents = LazyLock::new(|| {
        list(&[
            &meta::DRAFT202012,
            &meta::DRAFT202012_CORE,
            &meta::DRAFT202012_APPLICATOR,
            &meta::DRAFT202012_UNEVALUATED,
            &meta::DRAFT202012_VALIDATION,
            &meta::DRAFT202012_META_DATA,
            &meta::DRAFT202012_FORMAT_ANNOTATION,
            &meta::DRAFT202012_CONTENT,
        ])
    });
    let bare = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://")).unwrap_or(address);
    match bare {
        "json-schema.org/draft-04/schema" => &DRAFT_4,
        "json-schema.org/draft-06/schema" => &DRAFT_6,
        "json-schema.org/draft-07/schema" => &DRAFT_7,
        _ if bare.starts_with("json-schema.org/draft/2019-09/") => &DRAFT_2019,
        _ if bare.starts_with("json-schema.org/draft/2020-12/") => &DRAFT_2020,
        _ => &NONE,
    }
}
