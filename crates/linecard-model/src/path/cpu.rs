//! The core: its work takes longer if it is interrupted meanwhile.

use super::{Spread, Stream};
use crate::Ps;
use linecard::rng::Rng;

/// A core with the chance of its run.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) rng: Rng,
    stolen: Option<(Spread, Spread)>,
    next_stolen: Ps,
}

impl Core {
    pub(super) fn new(stream: &Stream) -> Self {
        let mut rng = Rng::new(stream.seed);
        let next_stolen = stream.stolen.map_or(Ps::NEVER, |(until, _)| until.draw(&mut rng));
        Self { rng, stolen: stream.stolen, next_stolen }
    }

    /// Works from `now` on for a random time; returns when it is done.
    pub(super) fn work(&mut self, now: Ps, spread: Spread) -> Ps {
        let time = spread.draw(&mut self.rng);
        let mut done = now + time;
        if let Some((until, takes)) = self.stolen
            && self.next_stolen <= done
        {
            // Interruptions while the core was idle have no effect.
            if self.next_stolen >= now {
                done += takes.draw(&mut self.rng);
            }
            self.next_stolen = done + until.draw(&mut self.rng);
        }
        done
    }
}
