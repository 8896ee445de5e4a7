# Keywork, and the nats-server that it can embed, in one small image.

FROM rust:1.95.0-bookworm AS build
# The image's own toolchain is the right one; rust-toolchain.toml would add clippy and rustfmt to it.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package keywork --bin keywork

# The version that Keywork is tested with.
FROM nats:2.15.1 AS nats

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/keywork --create-home keywork
# For NATS by TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/target/release/keywork /usr/local/bin/keywork
COPY --from=nats /nats-server /usr/local/bin/nats-server
USER keywork
VOLUME /var/lib/keywork
EXPOSE 50051
# Without --nats-url it runs a nats-server of its own, with its data in the data directory.
ENTRYPOINT ["keywork"]
CMD ["serve", "--listen", "0.0.0.0:50051", "--data-dir", "/var/lib/keywork"]
