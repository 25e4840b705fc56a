//! Bulk data by quinn, and what that takes of the processor: `peers/quic.sh` sets it beside `linecard send test:SIZE` over
//! loopback, `peers/transfer.sh` beside other programs over a path between two namespaces.
//!
//! Two threads, each with an executor and a core of its own, one connection. The sender gives quinn the
//! same bytes again and again without copying them; the receiver counts what comes, in order, and drops
//! it. Time is from the first byte given to the last one acknowledged, the handshake not included. The
//! processor's time is that of both threads, user and system.

use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    AsyncUdpSocket, ClientConfig, Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig,
    Runtime, ServerConfig, TokioRuntime, TransportConfig, UdpPoller, VarInt,
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::net::sockopt;
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{CipherSuite, RootCertStore};
use std::error::Error;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const USAGE: &str = "quic [--bytes 2G] [--streams 1] [--mtu BYTES] [--cipher aes128|aes256|chacha20] \
                     [--window 64M] [--cores SENDER,RECEIVER | --cores any] [--spaces SENDER,RECEIVER] \
                     [--addresses SENDER,RECEIVER] [--json]";

/// The name in the certificate.
const NAME: &str = "localhost";
/// Bytes given to quinn at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Buffers of both sockets, where root allows more than the default.
const SOCKET_BYTES: usize = 8 << 20;
/// The kernel takes no more by one call, however many packets it becomes.
const MAX_CALL_BYTES: usize = 65_507;
/// A transfer that makes no progress for so long has failed.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
struct Options {
    bytes: u64,
    streams: u64,
    /// UDP payload of a packet; none is quinn's own: from 1,200, and up to 1,452 as found out.
    mtu: Option<u16>,
    cipher: CipherSuite,
    window: u32,
    /// None is any.
    cores: Option<[usize; 2]>,
    /// Namespaces that `ip netns` has made; none is that of this process.
    spaces: Option<[String; 2]>,
    addresses: [Ipv4Addr; 2],
    json: bool,
}

/// Quinn's own socket, with as many packets to a call as fit. Quinn gives it ten of any size: large ones
/// are too much, which the kernel refuses, and quinn takes for the loss of all ten.
#[derive(Debug)]
struct Socket {
    inner: Arc<dyn AsyncUdpSocket>,
    segments: usize,
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &quinn::udp::Transmit<'_>) -> io::Result<()> {
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [quinn::udp::RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(context, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.segments
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// The measurements of one end.
#[derive(Debug, Default)]
struct End {
    seconds: f64,
    cpu_seconds: f64,
    bytes: u64,
    mtu: u16,
    lost: u64,
    packets: u64,
}

fn main() -> ExitCode {
    let result = Options::parse(std::env::args().skip(1)).and_then(|options| run(&options));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quic: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            bytes: 2 << 30,
            streams: 1,
            mtu: None,
            cipher: CipherSuite::TLS13_AES_256_GCM_SHA384,
            window: 64 << 20,
            cores: Some([0, 1]),
            spaces: None,
            addresses: [Ipv4Addr::LOCALHOST; 2],
            json: false,
        };
        while let Some(name) = arguments.next() {
            if name == "--json" {
                options.json = true;
                continue;
            }
            let Some(value) = arguments.next() else { return Err(USAGE.into()) };
            match name.as_str() {
                "--bytes" => options.bytes = bytes(&value)?,
                "--streams" => options.streams = value.parse()?,
                "--mtu" if value == "default" => options.mtu = None,
                "--mtu" => options.mtu = Some(value.parse()?),
                "--cipher" => options.cipher = cipher(&value)?,
                "--window" => options.window = u32::try_from(bytes(&value)?)?,
                "--cores" if value == "any" => options.cores = None,
                "--cores" => {
                    let [sender, receiver] = pair(&value)?;
                    options.cores = Some([sender.parse()?, receiver.parse()?]);
                }
                "--spaces" => options.spaces = Some(pair(&value)?.map(str::to_owned)),
                "--addresses" => {
                    let [sender, receiver] = pair(&value)?;
                    options.addresses = [sender.parse()?, receiver.parse()?];
                }
                _ => return Err(USAGE.into()),
            }
        }
        match options {
            Self { streams: 1..=1024, mtu: None | Some(1200..=9000), .. } => Ok(options),
            _ => Err("choose 1 to 1024 streams, and 1200 to 9000 bytes for packets".into()),
        }
    }

    fn transport(&self) -> Result<Arc<TransportConfig>> {
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_uni_streams(u32::try_from(self.streams)?.into())
            .stream_receive_window(self.window.into())
            .receive_window(self.window.into())
            .send_window(self.window.into())
            .max_idle_timeout(Some(IDLE.try_into()?));
        if let Some(mtu) = self.mtu {
            let mut discovery = MtuDiscoveryConfig::default();
            discovery.upper_bound(mtu);
            transport.initial_mtu(mtu).mtu_discovery_config(Some(discovery));
        }
        Ok(Arc::new(transport))
    }

    /// The socket of the sender (0) or the receiver (1), in its namespace.
    fn socket(&self, end: usize) -> Result<UdpSocket> {
        let bind = || -> Result<UdpSocket> {
            if let Some(spaces) = &self.spaces {
                let space = &spaces[end];
                let file = File::open(format!("/run/netns/{space}"))
                    .map_err(|error| format!("namespace {space}: {error}"))?;
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), kind)?;
            }
            let address = SocketAddr::from((self.addresses[end], 0));
            UdpSocket::bind(address).map_err(|error| format!("{address}: {error}").into())
        };
        // In a thread of its own: this one stays where it is.
        std::thread::scope(|scope| scope.spawn(bind).join())
            .map_err(|_| "the thread that binds a socket has panicked")?
    }

    /// An end of the connection, on a socket with room.
    fn endpoint(&self, socket: UdpSocket, server: Option<ServerConfig>) -> Result<Endpoint> {
        // Without rights the limits of the system stay, and more is lost.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES);
        let _ = sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BYTES);
        let mut config = EndpointConfig::default();
        if let Some(mtu) = self.mtu {
            config.max_udp_payload_size(mtu)?;
        }
        let largest = self.mtu.map_or(1, usize::from);
        let inner = TokioRuntime.wrap_udp_socket(socket)?;
        let segments = (MAX_CALL_BYTES / largest).min(inner.max_transmit_segments()).max(1);
        let socket = Arc::new(Socket { inner, segments });
        let runtime = Arc::new(TokioRuntime);
        Ok(Endpoint::new_with_abstract_socket(config, server, socket, runtime)?)
    }
}

/// What stands before and behind a comma.
fn pair(text: &str) -> Result<[&str; 2]> {
    let (sender, receiver) = text.split_once(',').ok_or(USAGE)?;
    Ok([sender, receiver])
}

/// A size as 500M or 2G.
fn bytes(text: &str) -> Result<u64> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse()?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is too much").into())
}

fn cipher(name: &str) -> Result<CipherSuite> {
    Ok(match name {
        "aes128" => CipherSuite::TLS13_AES_128_GCM_SHA256,
        "aes256" => CipherSuite::TLS13_AES_256_GCM_SHA384,
        "chacha20" => CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        _ => return Err(USAGE.into()),
    })
}

fn run(options: &Options) -> Result<()> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let [from, to] = [options.socket(0)?, options.socket(1)?];
    let address = to.local_addr()?;
    let core = |end: usize| options.cores.map(|cores| cores[end]);
    let server = server_config(options, cert.der().clone(), key)?;
    let (sent, got) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| on_core(core(1), receive(options, to, server)));
        let connection = send(options, from, address, cert.der().clone());
        let sent = on_core(core(0), connection);
        let got = receiver.join().map_err(|_| "the receiver's thread has panicked");
        Ok::<_, Box<dyn Error + Send + Sync>>((sent?, got??))
    })?;
    if got.bytes != options.bytes {
        return Err(format!("{} of {} bytes have come", got.bytes, options.bytes).into());
    }
    report(options, &sent, &got);
    Ok(())
}

/// The processor's time of this thread so far, user and system.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// One end, on one thread, of one core if there is one for it.
fn on_core<T>(core: Option<usize>, end: impl Future<Output = Result<T>>) -> Result<T> {
    if let Some(core) = core {
        let mut cores = CpuSet::new();
        cores.set(core);
        sched_setaffinity(None, &cores).map_err(|error| format!("core {core}: {error}"))?;
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(end)
}

/// The suites that may be negotiated: for the server only the one asked for, which thus it is.
fn provider(only: Option<CipherSuite>) -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.retain(|suite| only.is_none_or(|only| suite.suite() == only));
    Arc::new(provider)
}

fn server_config(
    options: &Options,
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
) -> Result<ServerConfig> {
    let tls = rustls::ServerConfig::builder_with_provider(provider(Some(options.cipher)))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())?;
    // The first packets are always sealed by AES-128-GCM (RFC 9001, section 5.2).
    let first = provider(Some(CipherSuite::TLS13_AES_128_GCM_SHA256));
    let first = first.cipher_suites.first().and_then(|suite| suite.tls13()?.quic_suite());
    let tls = QuicServerConfig::with_initial(Arc::new(tls), first.ok_or("no AES-128-GCM")?)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(options.transport()?);
    Ok(config)
}

fn client_config(options: &Options, certificate: CertificateDer<'static>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let tls = rustls::ClientConfig::builder_with_provider(provider(None))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(options.transport()?);
    Ok(config)
}

async fn send(
    options: &Options,
    socket: UdpSocket,
    address: SocketAddr,
    certificate: CertificateDer<'static>,
) -> Result<End> {
    let endpoint = options.endpoint(socket, None)?;
    let config = client_config(options, certificate)?;
    let connection = endpoint.connect_with(config, address, NAME)?.await?;
    let piece = Bytes::from((0..PIECE_BYTES).map(|at| at as u8).collect::<Vec<_>>());

    let (since, before) = (Instant::now(), cpu());
    let mut streams = Vec::new();
    for number in 0..options.streams {
        let share =
            options.bytes / options.streams + u64::from(number < options.bytes % options.streams);
        streams.push(tokio::spawn(fill(connection.clone(), piece.clone(), share)));
    }
    for stream in streams {
        stream.await??;
    }
    let (seconds, cpu_seconds) = (since.elapsed().as_secs_f64(), (cpu() - before).as_secs_f64());
    let path = connection.stats().path;
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    Ok(End {
        seconds,
        cpu_seconds,
        bytes: options.bytes,
        mtu: path.current_mtu,
        lost: path.lost_packets,
        packets: path.sent_packets,
    })
}

/// One stream, until all of it is acknowledged.
async fn fill(connection: Connection, piece: Bytes, mut left: u64) -> Result<()> {
    let mut stream = connection.open_uni().await?;
    while left > 0 {
        let len = left.min(PIECE_BYTES as u64) as usize;
        stream.write_chunk(piece.slice(..len)).await?;
        left -= len as u64;
    }
    stream.finish()?;
    match stream.stopped().await? {
        None => Ok(()),
        Some(code) => Err(format!("the receiver has stopped: {code}").into()),
    }
}

async fn receive(options: &Options, socket: UdpSocket, config: ServerConfig) -> Result<End> {
    let endpoint = options.endpoint(socket, Some(config))?;
    let incoming = tokio::time::timeout(IDLE, endpoint.accept()).await?;
    let connection = incoming.ok_or("no connection")?.await?;
    let before = cpu();
    let mut streams = Vec::new();
    for _ in 0..options.streams {
        streams.push(tokio::spawn(drain(connection.accept_uni().await?)));
    }
    let mut end = End::default();
    for stream in streams {
        end.bytes += stream.await??;
    }
    // Until the sender has all acknowledgments.
    connection.closed().await;
    end.cpu_seconds = (cpu() - before).as_secs_f64();
    Ok(end)
}

/// One stream, in order, counted and dropped.
async fn drain(mut stream: quinn::RecvStream) -> Result<u64> {
    let mut pieces = vec![Bytes::new(); 64];
    let mut bytes = 0;
    while let Some(count) = stream.read_chunks(&mut pieces).await? {
        bytes +=
            pieces[..count].iter_mut().map(|piece| std::mem::take(piece).len() as u64).sum::<u64>();
    }
    Ok(bytes)
}

fn report(options: &Options, sent: &End, got: &End) {
    let gbit = options.bytes as f64 * 8.0 / 1e9;
    let cpu = sent.cpu_seconds + got.cpu_seconds;
    let cipher = options.cipher.as_str().unwrap_or("?");
    let Options { bytes, streams, .. } = options;
    let End { seconds, mtu, lost, packets, .. } = sent;
    let (rate, per_cpu) = (gbit / seconds, gbit / cpu);
    let (at_sender, at_receiver) = (sent.cpu_seconds, got.cpu_seconds);
    if options.json {
        println!(
            "{{\"bytes\":{bytes},\"streams\":{streams},\"mtu\":{mtu},\"cipher\":\"{cipher}\",\
             \"seconds\":{seconds:.6},\"gbit_per_second\":{rate:.4},\"cpu_seconds\":{cpu:.6},\
             \"cpu_seconds_sender\":{at_sender:.6},\"cpu_seconds_receiver\":{at_receiver:.6},\
             \"gbit_per_cpu_second\":{per_cpu:.4},\"packets\":{packets},\"lost\":{lost}}}"
        );
    } else {
        println!(
            "quinn: {bytes} bytes, {streams} streams, packets of {mtu}, {cipher}: {seconds:.3} s, \
             {rate:.2} Gbit/s, {cpu:.3} CPU s ({at_sender:.3} sending, {at_receiver:.3} receiving), \
             {per_cpu:.2} Gbit per CPU s; {lost} of {packets} packets lost"
        );
    }
}
