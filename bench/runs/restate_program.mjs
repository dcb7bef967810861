// The peer's side: Restate's server, a service in Node.js and a driver, three processes on loopback.
//
// The driver reads one order per line, {"callers": 10, "seconds": 1} or {"times": 30}, and replies
// with one line of JSON, as dbos_program.py does. A run is a handler of three durable steps, called
// over HTTP. What the driver itself spends is not counted: `cpu_s` is the server's, `children_s` the
// service's. The first argument is the folder that npm installed the packages into.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import net from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const HOST = "127.0.0.1";
const TEXT = "x".repeat(1000);
const REST_MS = 50;
const READY_MS = 60_000;
const TICKS_PER_S = 100;
const [home, servicePort] = process.argv.slice(2);
const require = createRequire(`${home}/`);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const nowMs = () => Number(process.hrtime.bigint()) / 1e6; // the same clock in every process

function serve() {
  const restate = require("@restatedev/restate-sdk");
  const bench = restate.service({
    name: "bench",
    handlers: {
      file: async (ctx, number) => {
        const begunAtMs = nowMs();
        const prepared = await ctx.run("prepare", () => ({ id: number, text: TEXT }));
        const result = await ctx.run("mutate", () => ({ row: prepared.id }));
        await ctx.run("tell", () => ({ id: prepared.id, text: prepared.text, row: result.row }));
        return begunAtMs;
      },
    },
  });
  const handler = restate.createEndpointHandler({ services: [bench] });
  require("node:http2").createServer(handler).listen(Number(servicePort), HOST);
}

function freePort() {
  return new Promise((resolve) => {
    const probe = net.createServer().listen(0, HOST, () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

function call(agent, port, path, body) {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const request = http.request({ host: HOST, port, path, method: "POST", agent, headers });
    request.on("error", reject).on("response", (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part) => (text += part));
      response.on("end", () =>
        response.statusCode < 300 ? resolve(text) : reject(new Error(`${path}: ${text}`)),
      );
    });
    request.end(JSON.stringify(body));
  });
}

async function start() {
  const ports = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
  const [ingressPort, adminPort, nodePort, port] = ports;
  const binary = require.resolve(`@restatedev/restate-server-linux-${process.arch}/bin/restate-server`);
  const env = {
    ...process.env,
    RESTATE_INGRESS__BIND_PORT: String(ingressPort),
    RESTATE_ADMIN__BIND_PORT: String(adminPort),
    RESTATE_DISABLE_TELEMETRY: "1",
    DO_NOT_TRACK: "1",
  };
  const told = ["--no-logo", "--bind-ip", HOST, "--bind-port", String(nodePort), "--listen-mode", "tcp"];
  const stdio = ["ignore", "ignore", "inherit"];
  const server = spawn(binary, [...told, "--base-dir", "restate-data"], { env, stdio });
  const worker = spawn(process.execPath, [fileURLToPath(import.meta.url), home, String(port)], { stdio });
  const endsAtMs = nowMs() + READY_MS;
  for (;;) {
    try {
      await call(undefined, adminPort, "/deployments", { uri: `http://${HOST}:${port}` });
      return { server, worker, ingressPort };
    } catch (error) {
      if (nowMs() > endsAtMs) throw error;
      await sleep(100);
    }
  }
}

function cpuS({ pid }) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S;
}

async function main() {
  const { server, worker, ingressPort } = await start();
  const agent = new http.Agent({ keepAlive: true });
  let number = 0;
  const run = async () => Number(await call(agent, ingressPort, "/bench/file", ++number));

  async function measure(callers, seconds) {
    const [serverS, workerS, beganMs] = [cpuS(server), cpuS(worker), nowMs()];
    let count = 0;
    const caller = async () => {
      do {
        await run();
        count += 1;
      } while (nowMs() - beganMs < seconds * 1000);
    };
    await Promise.all(Array.from({ length: callers }, caller));
    return {
      count,
      wall_s: (nowMs() - beganMs) / 1000,
      cpu_s: cpuS(server) - serverS,
      children_s: cpuS(worker) - workerS,
    };
  }

  async function latenciesMs(times) {
    const found = [];
    for (let each = 0; each < times; each += 1) {
      await sleep(REST_MS);
      const calledAtMs = nowMs();
      found.push((await run()) - calledAtMs);
    }
    return found;
  }

  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    const reply = order.times ? latenciesMs(order.times) : measure(order.callers, order.seconds);
    console.log(JSON.stringify(await reply));
  }
  worker.kill();
  server.kill();
}

if (servicePort) serve();
else await main();
