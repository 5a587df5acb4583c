// SPDX-License-Identifier: Apache-2.0
import { render } from "preact";
import "./style.css";

render(<h1>byteledger</h1>, document.getElementById("page")!);
