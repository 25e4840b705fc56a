//! Any group with any losses: all kernels make the same repair packets, what can be repaired is,
//! and what cannot is refused with nothing written.

use crate::draw::Draw;
use linecard_transfer::fec::{Code, CodeError, Kernel, Piece, RepairPacket, Scheme};

/// Packets of either kind at most, and bytes of the longest: more only take longer.
const MAX_PACKETS: usize = 12;
const MAX_LEN: usize = 200;

/// Input: scheme, which packets are lost (a byte each), then the lengths and bytes of data.
pub fn fec(data: &[u8]) {
    let draw = &mut Draw::new(data);
    let (k, m) = (1 + draw.below(MAX_PACKETS), 1 + draw.below(MAX_PACKETS));
    let scheme = Scheme::reed_solomon(k, m).expect("few packets");
    same_text(scheme, draw);
    let count = 1 + draw.below(k);
    let gone: Vec<bool> = (0..count + m).map(|_| draw.byte() & 1 == 1).collect();
    let packets: Vec<Vec<u8>> = (0..count)
        .map(|_| {
            let len = draw.below(MAX_LEN);
            let mut bytes = draw.take(len);
            bytes.resize(len, 0x5A);
            bytes
        })
        .collect();
    let repair = encode(scheme, &packets, Kernel::best());
    for kernel in Kernel::available() {
        assert_eq!(encode(scheme, &packets, kernel), repair, "{}", kernel.name());
        check(&Code::with_kernel(scheme, kernel), &packets, &repair, &gone);
    }
}

/// Encoded values are decoded again, and decoded values are not refused.
fn same_text(scheme: Scheme, draw: &mut Draw) {
    assert_eq!(scheme.to_string().parse(), Ok(scheme));
    let len = draw.below(16);
    if let Ok(other) = String::from_utf8_lossy(&draw.take(len)).parse::<Scheme>() {
        assert_eq!(other.to_string().parse(), Ok(other));
        assert!(other.data_packets() + other.repair_packets() <= 256);
    }
}

fn encode(scheme: Scheme, packets: &[Vec<u8>], kernel: Kernel) -> Vec<Vec<u8>> {
    let longest = packets.iter().map(Vec::len).max().unwrap_or(0);
    let mut repair = vec![vec![0xEE; longest]; scheme.repair_packets()];
    let mut rows: Vec<&mut [u8]> = repair.iter_mut().map(Vec::as_mut_slice).collect();
    let slices: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let code = Code::with_kernel(scheme, kernel);
    code.encode(&slices, &mut rows).expect("a group as the scheme has it");
    repair
}

fn check(code: &Code, packets: &[Vec<u8>], repair: &[Vec<u8>], gone: &[bool]) {
    let (gone_data, gone_repair) = gone.split_at(packets.len());
    let mut after = packets.to_vec();
    let mut pieces: Vec<Piece> = Vec::new();
    for (bytes, gone) in after.iter_mut().zip(gone_data) {
        if *gone {
            bytes.fill(0xDD);
        }
        pieces.push(if *gone { Piece::Missing(bytes) } else { Piece::Present(bytes) });
    }
    let there: Vec<RepairPacket> = (0..)
        .zip(repair)
        .zip(gone_repair)
        .filter(|(_, gone)| !**gone)
        .map(|((row, bytes), _)| RepairPacket { row, bytes })
        .collect();
    let missing = gone_data.iter().filter(|gone| **gone).count();
    let result = code.repair(&mut pieces, &there);
    if missing <= there.len() {
        assert_eq!(result, Ok(missing));
        assert_eq!(after, packets);
        return;
    }
    assert_eq!(result, Err(CodeError::NotEnough { missing, repair: there.len() }));
    for ((after, before), gone) in after.iter().zip(packets).zip(gone_data) {
        assert!(if *gone { after.iter().all(|byte| *byte == 0xDD) } else { after == before });
    }
}
