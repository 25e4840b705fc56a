//! Lost packets are recomputed; what cannot be is refused; another implementation agrees.

use super::*;
use crate::fec::field::{divide, multiply};
use alloc::string::{String, ToString};
use alloc::{format, vec};
use linecard::rng::Rng;
use reed_solomon_erasure::galois_8;

/// A group's data and repair packets.
struct Group {
    data: Vec<Vec<u8>>,
    repair: Vec<Vec<u8>>,
}

impl Group {
    /// Random data, `equal` or different lengths.
    fn random(rng: &mut Rng, count: usize, longest: usize, equal: bool) -> Self {
        let data = (0..count).map(|index| {
            let short = !equal && index > 0;
            let len = if short { rng.below(longest as u64 + 1) as usize } else { longest };
            let mut bytes = vec![0; len];
            rng.fill(&mut bytes);
            bytes
        });
        Self { data: data.collect(), repair: Vec::new() }
    }

    fn slices(&self) -> Vec<&[u8]> {
        self.data.iter().map(Vec::as_slice).collect()
    }

    fn longest(&self) -> usize {
        self.data.iter().map(Vec::len).max().unwrap_or(0)
    }

    fn encode(&mut self, code: &Code) {
        let mut repair = vec![vec![0xEE; self.longest()]; code.scheme().repair_packets()];
        let mut rows: Vec<&mut [u8]> = repair.iter_mut().map(Vec::as_mut_slice).collect();
        code.encode(&self.slices(), &mut rows).unwrap();
        self.repair = repair;
    }

    /// Repairs what `lost` names from the rows of `there`, and gives the data then.
    fn repaired(
        &self,
        code: &Code,
        lost: &[usize],
        there: &[usize],
    ) -> Result<Vec<Vec<u8>>, CodeError> {
        let mut after = self.data.clone();
        lost.iter().for_each(|index| after[*index].fill(0xDD));
        let pieces = after.iter_mut().enumerate().map(|(index, bytes)| {
            if lost.contains(&index) { Piece::Missing(bytes) } else { Piece::Present(bytes) }
        });
        let mut pieces: Vec<Piece<'_>> = pieces.collect();
        let rows: Vec<RepairPacket<'_>> =
            there.iter().map(|row| RepairPacket { row: *row, bytes: &self.repair[*row] }).collect();
        let repaired = code.repair(&mut pieces, &rows)?;
        assert_eq!(repaired, lost.len());
        Ok(after)
    }
}

/// `count` different numbers below `below`.
fn draw(rng: &mut Rng, below: usize, count: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..below).collect();
    for place in 0..count {
        let other = place + rng.below((below - place) as u64) as usize;
        all.swap(place, other);
    }
    all.truncate(count);
    all
}

fn scheme(text: &str) -> Scheme {
    text.parse().unwrap()
}

/// Repair packets by their definition, one byte after the other.
fn by_definition(group: &Group, rows: usize) -> Vec<Vec<u8>> {
    let byte = |row: usize, at: usize| {
        let terms = (0..=u8::MAX).zip(&group.data).map(|(j, bytes)| {
            let factor = divide(!j, !j ^ row as u8);
            multiply(bytes.get(at).copied().unwrap_or(0), factor)
        });
        terms.fold(0, |sum, term| sum ^ term)
    };
    (0..rows).map(|row| (0..group.longest()).map(|at| byte(row, at)).collect()).collect()
}

#[test]
fn repair_packets_are_those_of_the_definition_by_every_kernel() {
    let mut rng = Rng::new(1);
    for text in ["xor:16", "rs:10,2", "rs:32,4", "rs:7,9", "duplicate", "rs:200,56", "rs:1,255"] {
        let scheme = scheme(text);
        for short in [0, scheme.data_packets() / 2] {
            let mut group = Group::random(&mut rng, scheme.data_packets() - short, 131, short > 0);
            for kernel in Kernel::available() {
                group.encode(&Code::with_kernel(scheme, kernel));
                let expected = by_definition(&group, scheme.repair_packets());
                assert!(group.repair == expected, "{text} by {}", kernel.name());
            }
        }
    }
}

/// Frozen, and computed by another program: an implementation with these bytes uses the same code.
#[test]
fn repair_packets_never_change() {
    let data = vec![b"forward".into(), b"error".into(), b"correction".into()];
    let mut group = Group { data, repair: vec![] };
    group.encode(&Code::new(scheme("rs:3,3")));
    let hex = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let text: Vec<String> = group.repair.iter().map(hex).collect();
    assert_eq!(text, ["6072726a761110696f6e", "d1f6eb961dbfd7243d43", "5faeda5329f54b2b45a3"]);
}

/// Promise (Transfer): Up to `m` lost packets of a group are computed from the others, and more are
/// refused: 600 random groups, 1 ≤ k, k + m ≤ 256.
#[test]
fn any_losses_up_to_the_repair_packets_are_repaired_and_more_are_refused() {
    let mut rng = Rng::new(2);
    let kernels: Vec<Kernel> = Kernel::available().collect();
    for round in 0..600 {
        let most = if round % 10 == 0 { 255 } else { 40 };
        let (k, m) = match round {
            0..10 => (255, 1),
            10..20 => (1, 255),
            20..30 => (128, 128),
            _ => {
                let k = 1 + rng.below(most) as usize;
                (k, 1 + rng.below((256 - k).min(most as usize) as u64) as usize)
            }
        };
        let code =
            Code::with_kernel(Scheme::reed_solomon(k, m).unwrap(), kernels[round % kernels.len()]);
        let count = if rng.chance(0.5) { k } else { 1 + rng.below(k as u64) as usize };
        let longest = rng.below(300) as usize;
        let mut group = Group::random(&mut rng, count, longest, round % 2 == 0);
        group.encode(&code);
        let there = rng.below(m as u64 + 1) as usize;
        let there = draw(&mut rng, m, there);
        let losses = rng.below(count as u64 + 1) as usize;
        let lost = draw(&mut rng, count, losses);
        let after = group.repaired(&code, &lost, &there);
        if losses <= there.len() {
            assert!(after.unwrap() == group.data, "({k}, {m}): {lost:?} from {there:?}");
        } else {
            let error = CodeError::NotEnough { missing: losses, repair: there.len() };
            assert_eq!(after.unwrap_err(), error);
        }
    }
}

#[test]
fn every_pattern_of_losses_of_a_small_code_is_repaired() {
    let code = Code::new(scheme("rs:5,3"));
    let mut group = Group::random(&mut Rng::new(3), 5, 33, false);
    group.encode(&code);
    for pattern in 0_u32..1 << 8 {
        let lost: Vec<usize> = (0..5).filter(|index| pattern >> index & 1 == 1).collect();
        let there: Vec<usize> = (0..3).filter(|row| pattern >> (5 + row) & 1 == 1).collect();
        match group.repaired(&code, &lost, &there) {
            Ok(after) => assert!(after == group.data, "{pattern:08b}"),
            Err(error) => {
                assert!(lost.len() > there.len(), "{pattern:08b}: {error}");
            }
        }
    }
}

#[test]
fn packets_added_one_by_one_make_the_same_repair_packets() {
    let mut rng = Rng::new(4);
    let code = Code::new(scheme("rs:12,5"));
    let mut group = Group::random(&mut rng, 12, 500, false);
    group.encode(&code);
    for at_once in [1, 3, 5] {
        let mut repair = vec![vec![0; group.longest()]; 5];
        let mut rows: Vec<&mut [u8]> = repair.iter_mut().map(Vec::as_mut_slice).collect();
        for (step, data) in group.slices().chunks(at_once).enumerate() {
            code.add(step * at_once, data, &mut rows).unwrap();
        }
        assert!(repair == group.repair, "{at_once} at once");
    }
}

#[test]
fn data_in_one_piece_is_the_same() {
    let code = Code::new(scheme("rs:9,3"));
    let mut bytes = vec![0; 8 * 100 + 30];
    Rng::new(5).fill(&mut bytes);
    let mut group = Group { data: bytes.chunks(100).map(<[u8]>::to_vec).collect(), repair: vec![] };
    group.encode(&code);
    let mut repair = vec![vec![1; 100]; 3];
    let mut rows: Vec<&mut [u8]> = repair.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode_run(&bytes, 100, &mut rows).unwrap();
    assert_eq!(repair, group.repair);

    let mut holed = bytes.clone();
    let lost = [0, 4, 8];
    lost.iter().for_each(|index| holed[index * 100..].iter_mut().take(30).for_each(|b| *b = 0));
    let rows: Vec<RepairPacket<'_>> =
        (0..3).map(|row| RepairPacket { row, bytes: &repair[row] }).collect();
    let count = code.repair_run(&mut holed, 100, |index| lost.contains(&index), &rows);
    assert_eq!(count, Ok(3));
    assert_eq!(holed, bytes);
}

#[test]
fn schemes_without_arithmetic() {
    let mut none: [&mut [u8]; 0] = [];
    let code = Code::new(Scheme::NONE);
    assert_eq!(code.encode(&[b"alone"], &mut none), Ok(()));
    let mut lost = [0; 5];
    let error = code.repair(&mut [Piece::Missing(&mut lost)], &[]).unwrap_err();
    assert_eq!(error, CodeError::NotEnough { missing: 1, repair: 0 });

    let mut copy = [0; 5];
    Code::new(Scheme::DUPLICATE).encode(&[b"twice"], &mut [&mut copy]).unwrap();
    assert_eq!(&copy, b"twice");
    Code::new(scheme("xor:3")).encode(&[&[1, 2], &[4, 8], &[16]], &mut [&mut copy[..2]]).unwrap();
    assert_eq!(copy[..2], [21, 10]);
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_written() {
    let code = Code::new(scheme("rs:2,2"));
    let (mut a, mut b) = ([7; 4], [7; 4]);
    let mut refused = |data: &[&[u8]], lens: &[usize], said: &str| {
        let mut rows: Vec<&mut [u8]> =
            [&mut a, &mut b].into_iter().zip(lens).map(|(row, len)| &mut row[..*len]).collect();
        let error = code.encode(data, &mut rows).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!((a, b), ([7; 4], [7; 4]));
    };
    refused(&[&[1], &[2], &[3]], &[1, 1], "data packet 2 of a group: rs:2,2 has 2, from 0");
    refused(&[&[1]], &[1], "1 buffers for repair packets: give 2 for rs:2,2");
    refused(&[&[1]], &[1, 2], "repair packets of 1 and 2 bytes");
    refused(&[&[1], &[1, 2, 3]], &[2, 2], "data packet of 3 bytes beside repair packets of 2");

    let refused = |row: usize, bytes: &[u8], len: usize, said: &str| {
        let (mut lost, mut too) = (vec![7; len], [7; 1]);
        let there = [RepairPacket { row, bytes }, RepairPacket { row: 1, bytes: &[0, 0] }];
        let mut data = [Piece::Missing(&mut lost), Piece::Missing(&mut too)];
        let error = code.repair(&mut data, &there).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!((lost, too), (vec![7; len], [7; 1]));
    };
    refused(2, &[0, 0], 2, "repair packet 2 of a group: rs:2,2 has 2, from 0");
    refused(1, &[0, 0], 2, "repair packet 1 is given twice: drop duplicates before");
    refused(0, &[0], 1, "repair packets of 1 and 2 bytes");
    refused(0, &[0, 0], 3, "data packet of 3 bytes beside repair packets of 2");
    assert_eq!(
        code.add(2, &[&[1]], &mut [&mut a, &mut b]).unwrap_err().to_string(),
        "data packet 2 of a group: rs:2,2 has 2, from 0"
    );
    assert!(code.add(usize::MAX, &[&[1]], &mut [&mut a, &mut b]).is_err());
    let error = code.encode_run(&[1], 0, &mut [&mut a, &mut b]).unwrap_err();
    assert_eq!(error, CodeError::EmptyPackets { len: 1 });
}

/// Promise (Transfer): All products in GF(256) equal those of a published crate.
#[test]
fn the_published_crate_has_the_same_field() {
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(multiply(a, b), galois_8::mul(a, b), "{a} · {b}");
        }
    }
}

/// Its repair packets are Lagrange's interpolation of the data at points behind it; with those
/// factors, our kernels make its bytes.
#[test]
fn the_kernels_make_the_published_crates_repair_packets_with_its_factors() {
    let mut rng = Rng::new(6);
    for (k, m) in [(10, 2), (32, 4), (5, 7), (1, 3)] {
        let mut group = Group::random(&mut rng, k, 300, true);
        group.repair = theirs(&group, m);
        let mut factors = Vec::new();
        for j in 0..k {
            factors.extend((k..k + m).map(|x| lagrange(k, j, x)));
        }
        let sources = group.slices();
        let product = Product { sources: &sources, factors: &factors, stride: m, adds: false };
        for kernel in Kernel::available() {
            let mut repair = vec![vec![0; 300]; m];
            let mut rows: Vec<&mut [u8]> = repair.iter_mut().map(Vec::as_mut_slice).collect();
            kernel.compute(&product, &mut rows);
            assert!(repair == group.repair, "({k}, {m}) by {}", kernel.name());
        }
    }
}

/// The factor of the value at `j` in the value at `x` of a polynomial given at `0..k`.
fn lagrange(k: usize, j: usize, x: usize) -> u8 {
    let others = (0..k).filter(|other| *other != j);
    others.fold(1, |product, other| multiply(product, divide((x ^ other) as u8, (j ^ other) as u8)))
}

fn theirs(group: &Group, rows: usize) -> Vec<Vec<u8>> {
    let code = galois_8::ReedSolomon::new(group.data.len(), rows).unwrap();
    let mut repair = vec![vec![0; group.longest()]; rows];
    code.encode_sep(&group.data, &mut repair).unwrap();
    repair
}

#[test]
fn both_recover_the_same_from_the_same_losses() {
    let mut rng = Rng::new(7);
    for _ in 0..200 {
        let (k, m) = (1 + rng.below(40) as usize, 1 + rng.below(10) as usize);
        let code = Code::new(Scheme::reed_solomon(k, m).unwrap());
        let mut group = Group::random(&mut rng, k, 90, true);
        group.encode(&code);
        let their_repair = theirs(&group, m);
        // Of all packets, as both number them.
        let losses = rng.below(m as u64 + 2) as usize;
        let gone = draw(&mut rng, k + m, losses.min(k + m));
        let lost: Vec<usize> = gone.iter().copied().filter(|index| *index < k).collect();
        let there: Vec<usize> = (0..m).filter(|row| !gone.contains(&(k + row))).collect();
        let ours = group.repaired(&code, &lost, &there);

        let all = group.data.iter().chain(&their_repair).cloned().map(Some);
        let mut shards: Vec<Option<Vec<u8>>> = all.collect();
        gone.iter().for_each(|index| shards[*index] = None);
        let code = galois_8::ReedSolomon::new(k, m).unwrap();
        let recovered = code.reconstruct_data(&mut shards);
        if gone.len() > m {
            // They refuse at once; we need only data, and refuse only when it cannot be had.
            assert!(recovered.is_err());
            assert_eq!(ours.is_err(), lost.len() > there.len());
            continue;
        }
        recovered.unwrap();
        let theirs: Vec<Vec<u8>> = shards.into_iter().take(k).map(Option::unwrap).collect();
        assert!(ours.unwrap() == theirs, "({k}, {m}) without {gone:?}");
    }
}
