//! Schemas that are asked for again and again, compiled once in this process.

use crate::{Schema, cost, dialect::Reading};
use opcell_types::Value;
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

/// Schemas that are kept.
const MAX_SHARED_SCHEMAS: usize = 64;

type Compiled = Result<Arc<Schema>, String>;

#[derive(Default)]
struct Cache {
    schemas: HashMap<(Reading, String), (u64, Compiled)>,
    /// Counts the times that anything was asked for.
    clock: u64,
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

pub(crate) fn get(schema: &Value, reading: Reading) -> Compiled {
    let key = (reading, schema.to_json());
    {
        let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        cache.clock += 1;
        let now = cache.clock;
        if let Some((used, compiled)) = cache.schemas.get_mut(&key) {
            *used = now;
            return compiled.clone();
        }
    }
    let tree = serde_json::Value::from(schema);
    let compiled = match reading {
        Reading::Strict => Schema::compile(&tree),
        Reading::Lenient => Schema::compile_leniently(&tree),
    };
    let compiled = compiled.map(Arc::new);
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let now = cache.clock;
    cache.schemas.insert(key, (now, compiled.clone()));
    while !cache.has_room() && cache.schemas.len() > 1 {
        let oldest = cache.schemas.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
        oldest.and_then(|key| cache.schemas.remove(&key));
    }
    compiled
}

impl Cache {
    /// As much as the schemas of one plugin or document may take.
    fn has_room(&self) -> bool {
        let kept = self.schemas.values().filter_map(|(_, compiled)| compiled.as_deref().ok());
        let compiled: u64 = kept.clone().map(|schema| schema.cost.compiled).sum();
        self.schemas.len() <= MAX_SHARED_SCHEMAS
            && compiled <= cost::MAX_COMPILED
            && crate::patterns::check_total(kept.map(|schema| schema.states).sum()).is_ok()
    }
}
