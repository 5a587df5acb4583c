// SPDX-License-Identifier: Apache-2.0
import { render } from "preact";
import { Page } from "./page.tsx";
import "./style.css";

render(<Page />, document.getElementById("page")!);
