//! The network between a worker and the server: it can be cut, and it can swallow everything without a word.

use anyhow::Result;
use std::net::Ipv4Addr;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::watch,
};

/// The behaviour of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// It carries everything.
    Whole,
    /// Every connection is closed, and no other is made.
    Cut,
    /// Connections stay, and nothing comes through: a partition.
    Silent,
}

/// One worker's way to the server.
pub struct Proxy {
    /// The port that the worker connects to.
    pub port: u16,
    network: watch::Sender<Network>,
}

impl Proxy {
    /// Listens, and carries everything.
    pub async fn start(listen: Ipv4Addr, server: u16) -> Result<Self> {
        let listener = TcpListener::bind((listen, 0)).await?;
        let port = listener.local_addr()?.port();
        let network = watch::Sender::new(Network::Whole);
        let state = network.clone();
        tokio::spawn(async move {
            while let Ok((worker, _)) = listener.accept().await {
                tokio::spawn(carry(worker, server, state.subscribe()));
            }
        });
        Ok(Self { port, network })
    }

    /// From now on.
    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

async fn carry(worker: TcpStream, server: u16, mut network: watch::Receiver<Network>) {
    let refused = *network.borrow() == Network::Cut;
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    if refused {
        return;
    }
    let ((from_worker, to_worker), (from_server, to_server)) = (worker.into_split(), server.into_split());
    let (there, back) = (network.clone(), network.clone());
    tokio::select! {
        _ = pass(from_worker, to_server, there) => {}
        _ = pass(from_server, to_worker, back) => {}
        _ = network.wait_for(|network| *network == Network::Cut) => {}
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut network: watch::Receiver<Network>) -> Result<()> {
    let mut piece = vec![0; 16 << 10];
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            return Ok(());
        }
        // What is under way when the network falls silent arrives when it speaks again, as with packets that are sent
        // again.
        network.wait_for(|network| *network != Network::Silent).await?;
        to.write_all(piece.get(..length).unwrap_or_default()).await?;
    }
}
