//! The growth of the cost with the size of arguments: the same echo for arguments from fifty bytes to a megabyte.

use super::{
    Bench, Guest, PEER_SLICE,
    interval::Interval,
    peer,
    sample::{Row, Samples},
};
use anyhow::Result;
use serde::Serialize;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Bytes of arguments.
const SIZES: [usize; 5] = [50, 1_000, 10_000, 100_000, 1_000_000];

/// Rounds of each size, at least.
const FEWEST: usize = 6;

/// One size of arguments.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Size {
    /// Of arguments, and of the result.
    pub argument_bytes: usize,
    /// Medians of the peers.
    pub rows: Vec<SizeRow>,
}

/// One peer at one size.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct SizeRow {
    /// The peer.
    pub name: String,
    /// Half of the calls took at most this long.
    pub median_us: f64,
    /// The interval of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_interval_us: Option<Interval>,
    /// The median against that of a cell.
    pub times_a_cell: f64,
    /// The number of measured calls.
    pub calls: usize,
}

impl From<Row> for SizeRow {
    fn from(row: Row) -> Self {
        let Row { name, median_us, median_interval_us, times_a_cell, calls, .. } = row;
        Self { name, median_us, median_interval_us, times_a_cell, calls }
    }
}

pub(super) async fn measure(bench: &Bench, time: Duration, progress: &(dyn Fn(&str) + Sync)) -> Result<Vec<Size>> {
    let mut sizes = Vec::new();
    for bytes in SIZES {
        progress(&format!("{bytes} bytes of arguments"));
        sizes.push(one(bench, &bench.guest().sized(bytes), time / SIZES.len() as u32).await?);
    }
    Ok(sizes)
}

async fn one(bench: &Bench, guest: &Guest, time: Duration) -> Result<Size> {
    let (id, arguments): (Arc<str>, Arc<str>) = (guest.operation.as_str().into(), guest.arguments.as_str().into());
    let mut peers = vec![
        peer::native(Arc::clone(&arguments)),
        peer::cell(Arc::clone(&bench.plugin), Arc::clone(&id), Arc::clone(&arguments)),
    ];
    if let Some(bare) = &bench.bare {
        peers.push(peer::bare(Arc::clone(bare), id, Arc::clone(&arguments)));
    }
    peers.extend(peer::pipe(&arguments).ok());
    let mut samples = Vec::new();
    for peer in &mut peers {
        samples.push(Samples::warm_up(peer, PEER_SLICE).await?);
    }
    let started = Instant::now();
    let mut rounds = 0;
    while rounds < FEWEST || started.elapsed() < time {
        for (peer, samples) in peers.iter_mut().zip(&mut samples) {
            samples.take(peer).await?;
        }
        rounds += 1;
    }
    let none = Samples::default();
    let cell = peers.iter().zip(&samples).find(|(peer, _)| peer.name == "cell").map_or(&none, |(_, samples)| samples);
    let rows = peers.iter().zip(&samples).map(|(peer, samples)| samples.row(peer, cell).into()).collect();
    Ok(Size { argument_bytes: arguments.len(), rows })
}
