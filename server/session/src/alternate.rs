//! Alternating between a caller and the pipeline.
//!
//! A caller that always sends more must not keep the session from its pipeline, nor the other way round: the one that
//! was served last comes second.

use std::pin::pin;

use futures::future::{Either, select};

/// Order of the two.
#[derive(Debug, Default)]
pub(super) struct Alternate {
    /// `true` if the caller was served last.
    heard: bool,
}

impl Alternate {
    /// Waits for the first of two inputs; if both are ready, the one that was not served last. The other future is
    /// dropped, which must lose nothing.
    pub(super) async fn next<C, P>(
        &mut self,
        caller: impl Future<Output = C>,
        pipeline: impl Future<Output = P>,
    ) -> Either<C, P> {
        let caller = pin!(caller);
        let pipeline = pin!(pipeline);
        let next = if self.heard {
            match select(pipeline, caller).await {
                Either::Left((progress, _)) => Either::Right(progress),
                Either::Right((command, _)) => Either::Left(command),
            }
        } else {
            match select(caller, pipeline).await {
                Either::Left((command, _)) => Either::Left(command),
                Either::Right((progress, _)) => Either::Right(progress),
            }
        };
        self.heard = matches!(next, Either::Left(_));
        next
    }
}

/// Awaits `future` if it is wanted, else never resolves.
pub(super) async fn when<T>(wanted: bool, future: impl Future<Output = T>) -> T {
    if wanted {
        future.await
    } else {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn of_two_that_always_have_something_each_gets_every_second_turn() {
        let mut alternate = Alternate::default();
        for _ in 0..3 {
            assert!(matches!(
                alternate.next(ready(1), ready(2)).await,
                Either::Left(1)
            ));
            assert!(matches!(
                alternate.next(ready(1), ready(2)).await,
                Either::Right(2)
            ));
        }
        for _ in 0..3 {
            let next = alternate.next(ready(1), when(false, ready(2))).await;
            assert!(matches!(next, Either::Left(1)));
        }
        let next = alternate.next(pending::<()>(), ready(2)).await;
        assert!(matches!(next, Either::Right(2)));
    }
}
