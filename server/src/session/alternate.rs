//! Listening to a caller and to the pipeline alternately.
//!
//! A caller that always sends more must not keep the session from what is made for it, nor the other way
//! round: whichever was listened to last comes second.

use std::pin::pin;

use futures::future::{Either, select};

/// Whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Alternate {
    /// The caller was listened to last.
    heard: bool,
}

impl Alternate {
    /// Whichever comes first; of two that are there, the one that was not taken last. The other is dropped, and must lose nothing
    /// by that.
    pub(super) async fn next<C, P>(
        &mut self,
        caller: impl Future<Output = C>,
        pipeline: impl Future<Output = P>,
    ) -> Either<C, P> {
        let (caller, pipeline) = (pin!(caller), pin!(pipeline));
        let next = match self.heard {
            false => match select(caller, pipeline).await {
                Either::Left((command, _)) => Either::Left(command),
                Either::Right((progress, _)) => Either::Right(progress),
            },
            true => match select(pipeline, caller).await {
                Either::Left((progress, _)) => Either::Right(progress),
                Either::Right((command, _)) => Either::Left(command),
            },
        };
        self.heard = matches!(next, Either::Left(_));
        next
    }
}

/// `future`, if it is wanted.
pub(super) async fn when<T>(wanted: bool, future: impl Future<Output = T>) -> T {
    match wanted {
        true => future.await,
        false => std::future::pending().await,
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
